package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func takenOver(changes ...func(*v1beta2.Kyma)) *v1beta2.Kyma {
	kyma := kymaOf("one")
	kyma.Labels = map[string]string{
		v1beta2.LabelTakeover:           v1beta2.TakeoverActive,
		v1beta2.LabelSkipReconciliation: v1beta2.True,
	}
	kyma.Annotations = map[string]string{}
	keda := v1beta2.Module{Name: "keda", Managed: true}
	kyma.Spec = v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "long-gone", Managed: true}}}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Requested: &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{keda}}},
		Takeover: &v1beta2.TakeoverStatus{
			Heard: true,
			Modules: []v1beta2.InheritedModule{
				{Name: "keda", Version: "1.7.0", Channel: "regular", Objects: []v1beta2.Resource{
					{
						Name:             "keda",
						Namespace:        "kyma-system",
						GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
					},
					{
						Name: "keda", Namespace: "kyma-system",
						GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "Service"},
					},
				}}},
		},
	}
	for _, change := range changes {
		change(kyma)
	}
	return kyma
}

func inPhase(phase string) func(*v1beta2.Kyma) {
	return func(k *v1beta2.Kyma) { k.Annotations[v1beta2.AnnotationTakeoverPhase] = phase }
}

func labeledTakeover(value string) func(*v1beta2.Kyma) {
	return func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelTakeover] = value }
}

func TestRequestContainsTakeoverState(t *testing.T) {
	inheritsKeda := func(t *testing.T, r resolve.Request) {
		if len(r.Inherited) != 1 || r.Inherited[0].Version != "1.7.0" || len(r.Inherited[0].Objects) != 2 ||
			r.Inherited[0].Objects[0].Kind != "Service" {
			t.Errorf("got inherited modules %+v, want keda 1.7.0 with two objects", r.Inherited)
		}
	}
	nothing := func(t *testing.T, r resolve.Request) {
		if len(r.Inherited) != 0 {
			t.Errorf("got inherited modules %+v, want none", r.Inherited)
		}
	}
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		phase  bundle.TakeoverPhase
		check  func(*testing.T, resolve.Request)
		err    string
	}{
		"Takeover without a phase":  {func(*v1beta2.Kyma) {}, bundle.TakeoverAdopt, inheritsKeda, ""},
		"Takeover in phase clean":   {inPhase("clean"), bundle.TakeoverClean, inheritsKeda, ""},
		"Takeover in phase release": {inPhase("release"), bundle.TakeoverRelease, nothing, ""},
		"Takeover finished":         {labeledTakeover(v1beta2.TakeoverFinished), "", nothing, ""},
		"Kyma without a takeover":   {labeledTakeover(""), "", nothing, ""},
		"Takeover with an unknown phase": {
			inPhase("cleanup"), "", nothing,
			`annotation kyma-pull.dev/takeover-phase is "cleanup", must be adopt, clean or release`,
		},
		"Takeover whose installed modules are unknown": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Takeover = nil
			}, bundle.TakeoverAdopt, nothing, "only `kcp-publisher run` can take over a Kyma",
		},
		"Module already adopted": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Takeover.Modules[0].Adopted = true
			}, bundle.TakeoverAdopt, nothing, "",
		},
		"Kyma deleted": {
			func(k *v1beta2.Kyma) { k.DeletionTimestamp = new(metav1.Now()) }, "", nothing, "",
		},
		"Request older than the takeover": {func(k *v1beta2.Kyma) { k.Status.Runtime.Takeover.Heard = false },
			bundle.TakeoverAdopt, func(t *testing.T, r resolve.Request) {
				if nothing(t, r); len(r.Requested.Modules) != 0 || !r.KeepsAllModules() {
					t.Errorf("got request %+v, keeps all %t", r.Requested.Modules, r.KeepsAllModules())
				}
			}, ""},
		"Request unknown": {func(k *v1beta2.Kyma) { k.Status.Runtime.Requested = nil },
			bundle.TakeoverAdopt, func(t *testing.T, r resolve.Request) {
				if nothing(t, r); len(r.Requested.Modules) != 0 || len(r.Seed.Modules) != 1 || !r.KeepsAllModules() {
					t.Errorf("got request %+v, seed %+v, keeps all %t", r.Requested.Modules, r.Seed.Modules, r.KeepsAllModules())
				}
			}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Rules{}.Request(takenOver(c.change), nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if got.Takeover != c.phase {
				t.Errorf("got phase %q, want %q", got.Takeover, c.phase)
			}
			c.check(t, got)
		})
	}
}

func TestSkipLabelIsIgnoredDuringATakeover(t *testing.T) {
	for value, skipped := range map[string]bool{v1beta2.TakeoverActive: false, v1beta2.TakeoverFinished: false,
		"": true, "maybe": true} {
		if got := IsSkipped(takenOver(labeledTakeover(value))); got != skipped {
			t.Errorf("label %q: got skipped %t, want %t", value, got, skipped)
		}
	}
}

// If the takeover label is set again after a finished takeover, the publisher must not remove any module.
func TestTakeoverLabelRemovesNothing(t *testing.T) {
	last := &PublishedBundle{
		Predicate: bundle.Predicate{Epoch: 1, Sequence: 1},
		Digest:    "sha256:a",
		Versions:  map[string]string{"keda": "1.7.0"},
	}
	last.State.Manifests = []bundle.Manifest{{Name: "keda", Module: "keda", Version: "1.7.0"}}
	runtime := Runtime{
		ID:             "one",
		RecordedBundle: &RecordedBundle{Epoch: 1, Sequence: 1, Digest: last.Digest, Versions: last.Versions},
		Installed:      []string{"keda"},
		Observed:       last.Digest,
	}
	for keeps, want := range map[bool]int{true: 0, false: 1} {
		next, _ := NextBundle(Adoption{LastBundle: last, MayKeep: true, Sequence: 1}, ResolvedBundle{KeepsAllModules: keeps},
			runtime,
			trust.Root{Epoch: 1}, time.Hour, time.Now())
		if len(next.Removals) != want {
			t.Errorf("keeps all modules %t: got removals %v, want %d", keeps, next.Removals, want)
		}
	}
}
