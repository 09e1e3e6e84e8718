package resolve

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// installed makes a module one that lifecycle-manager installed.
func (w *world) installed(module, version string) *world {
	w.request.Takeover = bundle.TakeoverAdopt
	w.request.Inherited = append(
		w.request.Inherited,
		phase.Inherited{Module: module, Channel: "regular", Version: version, Objects: []bundle.ObjectRef{
			{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "kyma-system", Name: module},
		}},
	)
	return w
}

// untended makes the modules that lifecycle-manager installed unmanaged ones.
func (w *world) untended() *world {
	for i := range w.request.Inherited {
		w.request.Inherited[i].Unmanaged, w.request.Inherited[i].Objects = true, nil
	}
	return w
}

// returned makes the last bundle one that gave the runtime back to lifecycle-manager.
func (w *world) returned(module, version string) *world {
	w.request.Last = &bundle.DesiredState{
		Takeover:  bundle.TakeoverRelease,
		Manifests: []bundle.Manifest{{Name: module, Module: module, Version: version}},
	}
	return w
}

// has gives the runtime a version that is known from another source than the last bundle.
func (w *world) has(module, version string) *world {
	w.request.Versions = map[string]string{module: version}
	return w
}

func TestFloorsAfterAHandback(t *testing.T) {
	guard := bundle.Manifest{Name: "guard", Module: "guard", Version: "1.1.0"}
	guard.Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
	last := &bundle.DesiredState{
		Takeover:  bundle.TakeoverRelease,
		Manifests: []bundle.Manifest{guard, {Name: "keda", Module: "keda", Version: "1.1.0"}},
	}
	versions := map[string]string{"guard": "1.1.0", "keda": "1.1.0"}
	if got := phase.Floors(bundle.TakeoverAdopt, last, versions); !maps.Equal(got,
		map[string]string{"guard": "1.1.0"}) {
		t.Errorf("a new takeover keeps %v", got)
	}
	if got := phase.Floors(bundle.TakeoverRelease, last, versions); !maps.Equal(got, versions) {
		t.Errorf("the release keeps %v", got)
	}
	last.Takeover = ""
	if got := phase.Floors("", last, versions); !maps.Equal(got, versions) {
		t.Errorf("another bundle keeps %v", got)
	}
}

func TestModuleIsTakenOverInItsInstalledVersion(t *testing.T) {
	beta := labelledTemplate(v1beta2.LabelBeta, v1beta2.True)
	gated := usual().installed("keda", "1.0.0")
	gated.request.Gates = map[rollout.Track]rollout.Decision{
		{Module: "keda", Channel: "regular"}: {Version: "1.1.0", Held: "waits"},
	}
	for name, c := range map[string]struct {
		world *world
		want  []string
		held  string
	}{
		"The channel is newer": {
			usual().channel("fast").installed("keda", "1.0.0"), []string{"keda@1.0.0 fast"}, "1.1.0 follows",
		},
		"The channel is older": {usual().installed("keda", "1.1.0"), []string{"keda@1.1.0 regular"}, "1.0.0 follows"},
		"It is pinned to another version": {
			usual().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.1.0" }).installed("keda", "1.0.0"),
			[]string{"keda@1.0.0"}, "1.1.0 follows"},
		"A rollout decides otherwise": {gated, []string{"keda@1.0.0 regular"}, "1.1.0 follows"},
		"Nobody asks for it any more": {
			newWorld().template("keda", "1.0.0").meta("keda").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, "",
		},
		"It is not offered to the Kyma any more": {
			newWorld().template("keda", "1.0.0", beta).meta("keda", "regular=1.0.0").ask("keda").
				installed("keda", "1.0.0"), []string{"keda@1.0.0 regular"}, "",
		},
		"It is mandatory, in a newer version": {newWorld().template("warden", "1.0.0").template("warden", "1.1.0").
			meta("warden").edit(mandatoryMeta("1.1.0")).installed("warden", "1.0.0"),
			[]string{"warden@1.0.0 mandatory"}, "1.1.0 follows"},
		"It is mandatory, and the runtime has a newer version": {newWorld().template("warden", "1.0.0").
			template("warden", "1.1.0").meta("warden").edit(mandatoryMeta("1.1.0")).
			has("warden", "1.1.0").installed("warden", "1.0.0"),
			[]string{"warden@1.1.0 mandatory",
				"Warning OlderVersionAsked: module warden: stays at version 1.1.0: lifecycle-manager installed " +
					"1.0.0, which is older"}, ""},
		"It was given back before, and the bundle then had a version that waited": {usual().has("keda", "1.1.0").
			returned("keda", "1.1.0").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, ""},
		"Its templates are of before ModuleReleaseMetas": {
			newWorld().older("keda-fast", "keda", "fast", "1.0.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				older("keda-regular", "keda", "regular", "1.1.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				ask("keda").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, "1.1.0 follows"},
		"The version is nowhere to be had": {usual().installed("keda", "0.9.0"),
			[]string{
				"Warning ModuleNotInherited: module keda: stays as lifecycle-manager installed it, and cannot be " +
					"taken over in version 0.9.0: " +
					`module keda: version 0.9.0 of channel "regular" has no ModuleTemplate: add keda-0.9.0; offer that version until the runtime has it from its agent`}, ""},
		"The Kyma does not want it managed": {
			usual().askNothingBut("keda", unmanaged).installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular unmanaged"}, "",
		},
		"It was unmanaged, and stays so": {
			usual().askNothingBut("keda", unmanaged).installed("keda", "1.0.0").untended(),
			[]string{"keda@1.0.0 regular unmanaged"}, "",
		},
		"It was unmanaged, and is managed again": {
			usual().installed("keda", "1.0.0").untended(), []string{"keda@1.0.0 regular"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.world.resolve(t)
			if lines := outline(got); !slices.Equal(lines, c.want) {
				t.Errorf("got %q, want %q", lines, c.want)
			}
			for _, m := range got.State.Manifests {
				if none := m.Unmanaged || c.world.request.Inherited[0].Unmanaged; none != (len(m.Inherited) == 0) ||
					!none && m.Inherited[0].Name != m.Module {
					t.Errorf("%s inherits %v", m.Module, m.Inherited)
				}
			}
			for _, i := range c.world.request.Inherited {
				if !slices.Contains(got.Asked, i.Module) {
					t.Errorf("%s may be removed: %v shall be there", i.Module, got.Asked)
				}
			}
			if (c.held == "") != (len(got.Remarks) == 0) || c.held != "" &&
				!strings.Contains(got.Remarks[0].Message, c.held) {
				t.Errorf("remarks are %+v, want %q", got.Remarks, c.held)
			}
			if got.State.Takeover != bundle.TakeoverAdopt {
				t.Errorf("the phase is %q", got.State.Takeover)
			}
		})
	}
}

func TestVersionThatCannotBeTakenOverIsAFloor(t *testing.T) {
	w := usual().installed("keda", "1.5.0")
	if got := w.resolve(t); got.Versions["keda"] != "1.5.0" || len(got.State.Manifests) != 0 {
		t.Errorf("versions are %v, manifests %+v", got.Versions, got.State.Manifests)
	}
}

func TestAdoptedModuleIsReconciledLikeAnyOther(t *testing.T) {
	w := usual().channel("fast").installed("keda", "1.0.0").published(t)
	w.request.Inherited = nil
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.1.0 fast"}) ||
		len(got.State.Manifests[0].Inherited) != 0 {
		t.Errorf("got %q, which inherits %v", lines, got.State.Manifests[0].Inherited)
	}
}

func TestModulesGivenBackStayUnchanged(t *testing.T) {
	w := usual().installed("keda", "1.0.0").published(t).channel("fast").askNothingBut("mail")
	w.request.Takeover, w.request.Versions = bundle.TakeoverRelease,
		map[string]string{"keda": "1.0.0", "warden": "2.0.0"}
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.0.0 regular"}) ||
		got.State.Takeover != bundle.TakeoverRelease {
		t.Errorf("got %q in phase %q", lines, got.State.Takeover)
	}
	if !slices.Equal(got.Asked, []string{"keda", "warden"}) {
		t.Errorf("%v shall be there", got.Asked)
	}
}

func TestRuntimeKeepsItsModulesUntilItsRequestIsKnown(t *testing.T) {
	w := usual().installed("keda", "1.0.0").published(t).askNothingBut("mail")
	w.request.Takeover, w.request.Unheard = bundle.TakeoverAdopt, true
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.0.0 regular"}) ||
		!slices.Equal(got.Asked, []string{"keda"}) {
		t.Errorf("got %q, asked %v", lines, got.Asked)
	}
	w.request.Last.Takeover = bundle.TakeoverRelease // lifecycle-manager went on since, maybe to another version
	if lines := outline(w.resolve(t)); len(lines) != 0 {
		t.Errorf("got %q of what was given back", lines)
	}
}
