package resolve

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// TestModuleWhoseOnlyVersionIsHeldHasAProblem covers a runtime that keeps version 1.0.0 while a rollout tries version
// 2.0.0.
func TestModuleWhoseOnlyVersionIsHeldHasAProblem(t *testing.T) {
	for name, c := range map[string]struct {
		values bundle.Values
		change func(*world)
		want   reason.Reason
	}{
		"value is undefined": {nil, func(*world) {}, reason.ValueUndefined},
		"value is defined":   {bundle.Values{"region": "eu"}, func(*world) {}, ""},
		"content does not fit": {bundle.Values{"region": "eu"}, func(w *world) {
			w.sized("keda", "2.0.0", bundle.MaxLayerBytes)
		}, reason.BundleLimit},
		"content fits": {bundle.Values{"region": "eu"}, func(w *world) {
			w.sized("keda", "2.0.0", bundle.MaxLayerBytes/2)
		}, ""},
		"content cannot be read": {bundle.Values{"region": "eu"}, func(w *world) {
			w.whole("keda", "2.0.0", Content{Err: errors.New("gone")})
		}, reason.ComponentBroken},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().template("keda", "1.0.0").
				template("keda", "2.0.0", annotated(v1beta2.AnnotationUsesValues, "region")).
				meta("keda", "regular=1.0.0").ask("keda").
				template("small", "1.0.0").meta("small", "regular=1.0.0").ask("small")
			for i := range bundle.MaxBundleBytes/bundle.MaxLayerBytes - 1 {
				other := fmt.Sprint("other", i)
				w.template(other, "1.0.0").sized(other, "1.0.0", bundle.MaxLayerBytes).meta(other, "regular=1.0.0").ask(other)
			}
			w.published(t).with(c.values, t)
			w.metas[0].Spec.Channels[0].Version = "2.0.0"
			c.change(w)
			track := rollout.Track{Module: "keda", Channel: "regular"}
			w.request.Gates = map[rollout.Track]rollout.Decision{
				track: {Version: "1.0.0", HeldReason: "wave one", TriedVersion: "2.0.0"},
			}
			result := w.resolve(t)
			state := result.State
			if m := manifestOf(result, "keda"); m == nil || m.Version != "1.0.0" {
				t.Fatalf("got manifest %+v, want keda 1.0.0", m)
			}
			var got bundle.Problem
			if len(state.Problems) > 0 {
				got = state.Problems[0]
			}
			if got.Reason != c.want || c.want != "" && got.Version != "2.0.0" || len(state.Problems) > 1 {
				t.Errorf("got problems %+v, want reason %q", state.Problems, c.want)
			}
			needs := ListNeeds(w.request, w.snapshot(t))
			if !slices.ContainsFunc(needs, func(n ComponentNeed) bool { return n.Version == "2.0.0" }) {
				t.Errorf("got needs %+v, want one with version 2.0.0", needs)
			}
		})
	}
}
