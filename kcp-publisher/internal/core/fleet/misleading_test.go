package fleet

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// misleading lists module messages that look like messages about other problems.
var misleading = []string{
	`admission webhook "policy" denied the request: latest tags: Pod x is forbidden`,
	"Kafka: exceeded quota of 100 partitions",
	"previous attempt had ErrImagePull, now waiting for license",
	"Keda cannot be installed: license missing",
	"sync of default/orders: ImagePullBackOff was seen before, content is not stored",
	"account a may not write to the bucket: grant this permission, or remove the objects from the module",
}

func TestModuleMessageDoesNotChangeTheSituation(t *testing.T) {
	texts := append([]string(nil), misleading...)
	for _, scenes := range [][]scene{controlPlaneScenes, wayScenes, runtimeScenes} {
		for _, s := range scenes {
			w := newWorld(t)
			s.change(w)
			if r := w.judged(); r.Cause != nil {
				texts = append(texts, r.Cause.Message)
			}
		}
	}
	states := map[reason.Reason]v1beta2.State{
		reason.CustomResourcesExist: v1beta2.StateWarning, reason.ReportsWarning: v1beta2.StateWarning,
	}
	for _, text := range texts {
		for _, why := range append([]reason.Reason{""}, reason.Modules...) {
			state := states[why]
			if state == "" {
				state = v1beta2.StateError
			}
			want := fromModule.situation(v1beta2.Reason(why))
			got := newWorld(t).reports("keda", state, text).because("keda", why).judged()
			if got.Cause == nil || got.Cause.Situation != want {
				t.Fatalf("reason %q with the text %q: got %+v, want %s", why, text, got.Cause, want)
			}
		}
	}
}

// A module's message must not change a situation that takes precedence over module problems.
func TestModuleMessageDoesNotHideMoreUrgentSituation(t *testing.T) {
	for _, scenes := range [][]scene{controlPlaneScenes, wayScenes} {
		for _, s := range scenes {
			if s.situation == ModuleBroken || s.situation == RegistryLost {
				continue // a broken module takes precedence
			}
			for _, text := range misleading {
				w := newWorld(t)
				s.change(w)
				if w.untouched || w.facts.Report == nil || w.facts.Published == nil {
					continue
				}
				w.reports("mail", v1beta2.StateError, text)
				if r := w.judged(); r.Cause == nil || r.Cause.Situation != s.situation {
					t.Errorf("%s with module text %q: got %+v, want %s", s.name, text, r.Cause, s.situation)
				}
			}
		}
	}
}
