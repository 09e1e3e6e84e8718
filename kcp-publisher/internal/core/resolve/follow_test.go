package resolve

import (
	"errors"
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func (w *world) gated(d rollout.Decision) *world {
	w.request.Gates = map[rollout.Track]rollout.Decision{{Module: "keda", Channel: "regular"}: d}
	return w
}

var errUnread = errors.New("component keda:1.1.0 cannot be read")

func promoted(w *world) *world {
	w.metas[0].Spec.Channels[0].Version = "1.1.0"
	return w
}

func TestRolloutGateLimitsTheVersion(t *testing.T) {
	const why = "rollout keda-regular-1 holds version 1.1.0: wave others"
	held := rollout.Decision{Version: "1.0.0", HeldReason: why}
	for name, c := range map[string]struct {
		world *world
		then  func(*world)
		want  []string
		held  bool
		// remark is true if the result has a remark about a rolled-back version.
		remark bool
	}{
		"Held runtime keeps the last good version": {
			world: usualWorld(), then: func(w *world) { promoted(w).gated(held) }, want: []string{"keda@1.0.0 regular"},
			held: true},
		"Held new runtime gets the last good version": {
			world: promoted(usualWorld()).gated(held), want: []string{"keda@1.0.0 regular"}, held: true},
		"Held runtime keeps a version whose template was deleted": {
			world: usualWorld(), then: func(w *world) { promoted(w).gated(held); w.templates = w.templates[1:] },
			want: []string{"keda@1.0.0 regular"}, held: true},
		"Runtime without a gate gets the channel's version": {
			world: usualWorld(), then: func(w *world) { promoted(w) }, want: []string{"keda@1.1.0 regular"}},
		"Rollback returns to the last good version": {
			world: promoted(usualWorld()),
			then:  func(w *world) { w.gated(rollout.Decision{Version: "1.0.0", ReplacedVersion: "1.1.0", HeldReason: why}) },
			want:  []string{"keda@1.0.0 regular"}, remark: true},
		"Rollback to a different version is refused": {
			world:  promoted(usualWorld()),
			then:   func(w *world) { w.gated(rollout.Decision{Version: "1.0.0", ReplacedVersion: "1.0.9", HeldReason: why}) },
			remark: true,
			want: []string{
				"keda@1.1.0 regular",
				`Warning OlderVersionAsked: module keda stays at version 1.1.0: channel "regular" has 1.0.0, which is older`,
			}},
		"Rollout does not affect a pinned module": {
			world: usualWorld().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.1.0" }).gated(held),
			want:  []string{"keda@1.1.0"}},
		"Unreadable version keeps the last manifest": {
			world: usualWorld(), then: func(w *world) { promoted(w).whole("keda", "1.1.0", Content{Err: errUnread}) },
			want: []string{"keda@1.0.0 regular", "Error ComponentBroken: module keda: " + errUnread.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.then != nil {
				c.world.published(t)
				c.then(c.world)
			}
			result := c.world.resolve(t)
			if got := outline(result); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			problems := []bundle.Problem{{Module: "keda", Channel: "regular", State: v1beta2.StateReady, Message: why}}
			if held := slices.Equal(result.HeldProblems, problems); held != c.held || !held && len(result.HeldProblems) > 0 {
				t.Errorf("got held modules %+v, want held %t", result.HeldProblems, c.held)
			}
			if remark := slices.Equal(result.Remarks, problems); remark != c.remark || !remark &&
				len(result.Remarks) > 0 {
				t.Errorf("got remarks %+v, want a remark %t", result.Remarks, c.remark)
			}
		})
	}
}

func TestUnrelatedRolloutDoesNotChangeTheBundle(t *testing.T) {
	free, held := usualWorld(), usualWorld().gated(rollout.Decision{
		Version: "1.0.0", HeldReason: "rollout keda-regular-1 holds version 1.1.0: wave others",
	})
	if a, b := encoded(t, free.resolve(t)),
		encoded(t, held.resolve(t)); a.State.Descriptor.Digest != b.State.Descriptor.Digest {
		t.Errorf("the rollout changes the desired state from\n%s\nto\n%s", a.State.Bytes, b.State.Bytes)
	}
	shown := promoted(usualWorld()).gated(rollout.Decision{
		Version: "1.0.0", HeldReason: "rollout keda-regular-1 holds version 1.1.0: wave others",
	})
	shown.request.CatalogVersions = map[rollout.Track]string{{Module: "keda", Channel: "regular"}: "1.0.0"}
	if a, b := encoded(t, free.resolve(t)),
		encoded(t, shown.resolve(t)); a.State.Descriptor.Digest != b.State.Descriptor.Digest ||
		a.Catalog.Descriptor.Digest != b.Catalog.Descriptor.Digest {
		t.Errorf("a held promotion changes the catalog from\n%s\nto\n%s", a.Catalog.Bytes, b.Catalog.Bytes)
	}
}

func TestHeldModuleIsRemovedWithItsInstalledVersion(t *testing.T) {
	w := usualWorld()
	w.request.Requested.Modules, w.request.RemovedModules = nil, []v1beta2.Module{
		{Name: "keda", Channel: "regular", Managed: true},
	}
	if state := w.resolve(t).State; len(state.Leaving) != 1 {
		t.Fatalf("without a rollout: got leaving modules %+v, want keda", state.Leaving)
	}
	if state := w.gated(rollout.Decision{Version: "1.0.0", HeldReason: "held"}).resolve(t).State; len(state.Leaving) != 0 {
		t.Errorf("with a rollout that holds the version back: got leaving modules %+v, want none", state.Leaving)
	}
}

// A channel was set back, and the module kept its newer version. Its removal must not downgrade it either.
func TestRemovedModuleIsNotDowngraded(t *testing.T) {
	for installed, want := range map[string]int{"": 1, "0.9.0": 1, "1.0.0": 1, "1.1.0": 0} {
		w := usualWorld()
		w.request.Requested.Modules, w.request.RemovedModules = nil, []v1beta2.Module{
			{Name: "keda", Channel: "regular", Managed: true},
		}
		w.request.RemovedVersions = map[string]string{"keda": installed}
		if state := w.resolve(t).State; len(state.Leaving) != want {
			t.Errorf("installed version %q: got leaving modules %+v, want %d", installed, state.Leaving, want)
		}
	}
}

// A backup contains a rollout that was rolled back. After the backup, another rollout installed the version again.
func TestRollbackFromBackupIsNotRepeated(t *testing.T) {
	track := rollout.Track{Module: "keda", Channel: "regular"}
	for name, c := range map[string]struct {
		published, newest string
		want              string
	}{
		"rollback before its bundle":         {"1.1.0", "1.1.0", "1.1.0"},
		"rollback in the published bundle":   {"1.0.0", "1.0.0", "1.1.0"},
		"runtime has the version again":      {"1.0.0", "1.1.0", ""},
		"runtime without a published bundle": {"", "1.1.0", ""},
	} {
		w := promoted(usualWorld()).gated(rollout.Decision{Version: "1.0.0", ReplacedVersion: "1.1.0", HeldReason: "held"})
		w.request.Versions = map[string]string{"keda": c.newest}
		before := w.request.Gates[track]
		request := w.request.WithoutOutdatedRollbacks(map[string]string{"keda": c.published})
		if got := request.Gates[track].ReplacedVersion; got != c.want {
			t.Errorf("%s: got replaced version %q, want %q", name, got, c.want)
		}
		if w.request.Gates[track] != before {
			t.Errorf("%s: the original request has changed", name)
		}
	}
}

func TestOfferedVersionsFollowRolloutGates(t *testing.T) {
	w := promoted(usualWorld())
	w.request.Requested.Modules, w.request.Settings.Autonomy = nil, bundle.AutonomyCatalog
	w.gated(rollout.Decision{Version: "1.0.0", HeldReason: "held"})
	var got []string
	for _, m := range w.resolve(t).State.Offers {
		got = append(got, m.Module+"@"+m.Version+" "+m.Channel)
	}
	if want := []string{"keda@1.1.0 fast", "keda@1.0.0 regular"}; !slices.Equal(got, want) {
		t.Errorf("got offers %v, want %v", got, want)
	}
}

func TestModulesThatFollowAChannelAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		world *world
		want  []FollowedChannel
	}{
		"Module follows the Kyma's channel": {usualWorld(), []FollowedChannel{{"keda", "regular", "1.0.0"}}},
		"Module's channel overrides the Kyma's": {
			usualWorld().askNothingBut("keda", inChannel("fast")), []FollowedChannel{{"keda", "fast", "1.1.0"}},
		},
		"Module with a missing template": {
			usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "3.0.0" }),
			[]FollowedChannel{{"keda", "regular", "3.0.0"}},
		},
		"Module without a ModuleReleaseMeta": {
			newWorld().older("keda-regular", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).ask("keda"), []FollowedChannel{{"keda", "regular", "1.0.0"}},
		},
		"Channel without a version": {usualWorld().channel("slow"), nil},
		"Module that is not offered to the runtime": {
			usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }), nil,
		},
		"Unmanaged module": {usualWorld().askNothingBut("keda", unmanaged), nil},
		"Pinned module": {
			usualWorld().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.0.0" }), nil,
		},
		"Mandatory module": {usualWorld().edit(mandatoryMeta("1.0.0")), nil},
		"Module for the control plane": {newWorld().template("keda", "1.0.0", func(t *v1beta2.ModuleTemplate) {
			t.Annotations = map[string]string{v1beta2.AnnotationTarget: v1beta2.TargetControlPlane}
		}).meta("keda", "regular=1.0.0").ask("keda"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FollowedChannels(c.world.request, c.world.snapshot(t)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			c.world.request.IsDeleting = true
			if got := FollowedChannels(c.world.request, c.world.snapshot(t)); got != nil {
				t.Errorf("deleted Kyma: got followed modules %v, want none", got)
			}
		})
	}
}
