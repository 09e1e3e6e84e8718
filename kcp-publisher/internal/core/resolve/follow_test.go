package resolve

import (
	"errors"
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// gated lets a rollout decide about keda.
func (w *world) gated(d rollout.Decision) *world {
	w.request.Gates = map[rollout.Track]rollout.Decision{{Module: "keda", Channel: "regular"}: d}
	return w
}

var errUnread = errors.New("component keda:1.1.0 cannot be read")

func promoted(w *world) *world {
	w.metas[0].Spec.Channels[0].Version = "1.1.0"
	return w
}

func TestGateLimitsTheVersion(t *testing.T) {
	const why = "rollout keda-regular-1 holds version 1.1.0: wave others"
	held := rollout.Decision{Version: "1.0.0", Held: why}
	for name, c := range map[string]struct {
		world *world
		then  func(*world)
		want  []string
		held  bool
		// remark reports that the status mentions it: a version was taken back.
		remark bool
	}{
		"A runtime that is held keeps the last good version": {
			world: usual(), then: func(w *world) { promoted(w).gated(held) }, want: []string{"keda@1.0.0 regular"},
			held: true},
		"A new runtime that is held gets the last good version": {
			world: promoted(usual()).gated(held), want: []string{"keda@1.0.0 regular"}, held: true},
		"A held version whose template is gone stays what it was": {
			world: usual(), then: func(w *world) { promoted(w).gated(held); w.templates = w.templates[1:] },
			want: []string{"keda@1.0.0 regular"}, held: true},
		"Without a gate the runtime has what its channel has": {
			world: usual(), then: func(w *world) { promoted(w) }, want: []string{"keda@1.1.0 regular"}},
		"A runtime that was given the version gets the last good one back": {
			world: promoted(usual()),
			then:  func(w *world) { w.gated(rollout.Decision{Version: "1.0.0", Undo: "1.1.0", Held: why}) },
			want:  []string{"keda@1.0.0 regular"}, remark: true},
		"A way back from another version is a downgrade": {
			world:  promoted(usual()),
			then:   func(w *world) { w.gated(rollout.Decision{Version: "1.0.0", Undo: "1.0.9", Held: why}) },
			remark: true,
			want: []string{
				"keda@1.1.0 regular",
				`Warning OlderVersionAsked: module keda: stays at version 1.1.0: channel "regular" has 1.0.0, which is older`,
			}},
		"A module that is pinned is no concern of a rollout": {
			world: usual().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.1.0" }).gated(held),
			want:  []string{"keda@1.1.0"}},
		"A required version that cannot be read leaves the last": {
			world: usual(), then: func(w *world) { promoted(w).whole("keda", "1.1.0", Content{Err: errUnread}) },
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
			if held := slices.Equal(result.Held, problems); held != c.held || !held && len(result.Held) > 0 {
				t.Errorf("held %+v", result.Held)
			}
			if remark := slices.Equal(result.Remarks, problems); remark != c.remark || !remark &&
				len(result.Remarks) > 0 {
				t.Errorf("remarks %+v", result.Remarks)
			}
		})
	}
}

func TestUnrelatedRolloutDoesNotChangeTheBundle(t *testing.T) {
	free, held := usual(), usual().gated(rollout.Decision{
		Version: "1.0.0", Held: "rollout keda-regular-1 holds version 1.1.0: wave others",
	})
	if a, b := encoded(t, free.resolve(t)),
		encoded(t, held.resolve(t)); a.State.Descriptor.Digest != b.State.Descriptor.Digest {
		t.Errorf("was\n%s\nis\n%s", a.State.Bytes, b.State.Bytes)
	}
	shown := promoted(usual()).gated(rollout.Decision{
		Version: "1.0.0", Held: "rollout keda-regular-1 holds version 1.1.0: wave others",
	})
	shown.request.Shown = map[rollout.Track]string{{Module: "keda", Channel: "regular"}: "1.0.0"}
	if a, b := encoded(t, free.resolve(t)),
		encoded(t, shown.resolve(t)); a.State.Descriptor.Digest != b.State.Descriptor.Digest ||
		a.Catalog.Descriptor.Digest != b.Catalog.Descriptor.Digest {
		t.Errorf("a promotion that is held was\n%s\nis\n%s", a.Catalog.Bytes, b.Catalog.Bytes)
	}
}

func TestHeldModuleThatLeavesStaysUnchanged(t *testing.T) {
	w := usual()
	w.request.Asked.Modules, w.request.Leaving = nil, []v1beta2.Module{
		{Name: "keda", Channel: "regular", Managed: true},
	}
	if state := w.resolve(t).State; len(state.Leaving) != 1 {
		t.Fatalf("leaving are %+v", state.Leaving)
	}
	if state := w.gated(rollout.Decision{Version: "1.0.0", Held: "held"}).resolve(t).State; len(state.Leaving) != 0 {
		t.Errorf("leaving are %+v", state.Leaving)
	}
}

func TestOffersFollowGates(t *testing.T) {
	w := promoted(usual())
	w.request.Asked.Modules, w.request.Settings.Autonomy = nil, bundle.AutonomyCatalog
	w.gated(rollout.Decision{Version: "1.0.0", Held: "held"})
	var got []string
	for _, m := range w.resolve(t).State.Offers {
		got = append(got, m.Module+"@"+m.Version+" "+m.Channel)
	}
	if want := []string{"keda@1.1.0 fast", "keda@1.0.0 regular"}; !slices.Equal(got, want) {
		t.Errorf("offered are %v, want %v", got, want)
	}
}

func TestModulesThatFollowAChannel(t *testing.T) {
	for name, c := range map[string]struct {
		world *world
		want  []Follow
	}{
		"Those that follow a channel": {usual(), []Follow{{"keda", "regular", "1.0.0"}}},
		"Their own channel wins": {
			usual().askNothingBut("keda", inChannel("fast")), []Follow{{"keda", "fast", "1.1.0"}},
		},
		"Also one whose template is missing for the moment": {
			usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "3.0.0" }),
			[]Follow{{"keda", "regular", "3.0.0"}},
		},
		"By the older lookups, too": {
			newWorld().older("keda-regular", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).ask("keda"), []Follow{{"keda", "regular", "1.0.0"}},
		},
		"Not one in a channel without a version": {usual().channel("slow"), nil},
		"Not one that is not offered to the runtime": {
			usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }), nil,
		},
		"Not an unmanaged one": {usual().askNothingBut("keda", unmanaged), nil},
		"Not one that is pinned": {
			usual().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.0.0" }), nil,
		},
		"Not a mandatory one": {usual().edit(mandatoryMeta("1.0.0")), nil},
		"Not one that is installed elsewhere": {newWorld().template("keda", "1.0.0", func(t *v1beta2.ModuleTemplate) {
			t.Annotations = map[string]string{v1beta2.AnnotationTarget: v1beta2.TargetControlPlane}
		}).meta("keda", "regular=1.0.0").ask("keda"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Follows(c.world.request, c.world.snapshot(t)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			c.world.request.Deleting = true
			if got := Follows(c.world.request, c.world.snapshot(t)); got != nil {
				t.Errorf("with its Kyma deleted: %v", got)
			}
		})
	}
}
