package resolve

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func TestRolloutDecidesWhenModulesAreRemoved(t *testing.T) {
	const held = "rollout keda-regular-removed-1 holds the removal: wave all"
	hide := func(w *world) { w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }) }
	optional := func(w *world) { w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Mandatory = nil }) }
	waits := func(w *world) { w.request.WaitingRemovals = map[string]string{"keda": held} }
	restores := func(w *world) {
		w.request.LastState.Manifests = nil
		w.request.RemovalGates = map[string]rollout.Decision{
			"keda": {Version: "1.0.0", ReplacedVersion: "removed", HeldReason: "rolled back"},
		}
	}
	for name, c := range map[string]struct {
		world   *world
		changes []func(*world)
		want    []string
		message string
	}{
		"hidden module waits for its wave": {
			usualWorld(), []func(*world){hide, waits}, []string{"keda@1.0.0 regular"}, held,
		},
		"module that is no longer mandatory waits for its wave": {
			newWorld().template("keda", "1.0.0").meta("keda").edit(mandatoryMeta("1.0.0")),
			[]func(*world){optional, waits},
			[]string{"keda@1.0.0 mandatory"}, held,
		},
		"hidden module keeps its version while it waits": {
			usualWorld(), []func(*world){hide, waits, func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "1.1.0" })
			}}, []string{"keda@1.0.0 regular"}, held,
		},
		"hidden module is restored": {
			usualWorld(), []func(*world){hide, restores}, []string{"keda@1.0.0 regular"}, "rolled back",
		},
		"hidden module is restored in the version that the runtime had": {
			usualWorld(), []func(*world){hide, restores, func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "1.1.0" })
			}}, []string{"keda@1.0.0 regular"}, "rolled back",
		},
		"mandatory module is restored": {
			newWorld().template("keda", "1.0.0").meta("keda").edit(mandatoryMeta("1.0.0")),
			[]func(*world){optional, restores}, []string{"keda@1.0.0"},
			"rolled back",
		},
		"module without its ModuleTemplate cannot be restored": {
			usualWorld(), []func(*world){hide, restores, func(w *world) { w.templates = w.templates[1:] }},
			[]string{"Warning TemplateMissing: module keda: version 1.0.0 in channel \"regular\" has no ModuleTemplate: " +
				"add keda-1.0.0"}, "",
		},
		"module without its ModuleReleaseMeta cannot be restored": {
			newWorld().template("keda", "1.0.0").meta("keda").edit(mandatoryMeta("1.0.0")),
			[]func(*world){restores, func(w *world) { w.metas = nil }},
			[]string{"Warning TemplateMissing: module keda has no ModuleReleaseMeta, and no ModuleTemplate with its name has " +
				"version 1.0.0: create the ModuleReleaseMeta"}, "",
		},
		"requested module without its ModuleReleaseMeta cannot be restored": {
			usualWorld(), []func(*world){restores, func(w *world) { w.metas = nil }},
			[]string{"Warning TemplateMissing: module keda has no ModuleReleaseMeta, and no ModuleTemplate with its name has " +
				"version 1.0.0: create the ModuleReleaseMeta"}, "",
		},
		"module that is offered again follows its channel": {
			usualWorld(), []func(*world){restores, func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "1.1.0" })
			}}, []string{"keda@1.1.0 regular"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.world.published(t)
			for _, change := range c.changes {
				change(w)
			}
			result := w.resolve(t)
			if got := outline(result); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, p := range result.State.Problems {
				if w.request.RemovalGates != nil && p.Version != "1.0.0" {
					t.Errorf("got a problem with version %q, want the version that the rollout restores", p.Version)
				}
			}
			message := ""
			for _, p := range slices.Concat(result.HeldProblems, result.Remarks) {
				message += p.Message
			}
			if message != c.message {
				t.Errorf("got message %q, want %q", message, c.message)
			}
			if len(ListNeeds(w.request, w.snapshot(t))) == 0 && len(result.State.Manifests) > 0 && c.message == "rolled back" {
				t.Error("the component of the restored module would not be read")
			}
		})
	}
}
