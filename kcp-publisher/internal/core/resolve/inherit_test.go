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

func (w *world) untended() *world {
	for i := range w.request.Inherited {
		w.request.Inherited[i].Unmanaged, w.request.Inherited[i].Objects = true, nil
	}
	return w
}

func (w *world) returned(module, version string) *world {
	w.request.LastState = &bundle.DesiredState{
		Takeover:  bundle.TakeoverRelease,
		Manifests: []bundle.Manifest{{Name: module, Module: module, Version: version}},
	}
	return w
}

func (w *world) has(module, version string) *world {
	w.request.Versions = map[string]string{module: version}
	return w
}

func TestModulesReturnedToLifecycleManagerHaveNoMinimumVersion(t *testing.T) {
	guard := bundle.Manifest{Name: "guard", Module: "guard", Version: "1.1.0"}
	guard.Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
	last := &bundle.DesiredState{
		Takeover:  bundle.TakeoverRelease,
		Manifests: []bundle.Manifest{guard, {Name: "keda", Module: "keda", Version: "1.1.0"}},
	}
	versions := map[string]string{"guard": "1.1.0", "keda": "1.1.0"}
	if got := phase.MinimumVersions(bundle.TakeoverAdopt, last, versions); !maps.Equal(got,
		map[string]string{"guard": "1.1.0"}) {
		t.Errorf("next takeover: got floors %v, want only the mandatory module", got)
	}
	if got := phase.MinimumVersions(bundle.TakeoverRelease, last, versions); !maps.Equal(got, versions) {
		t.Errorf("release: got floors %v, want %v", got, versions)
	}
	last.Takeover = ""
	if got := phase.MinimumVersions("", last, versions); !maps.Equal(got, versions) {
		t.Errorf("bundle without a takeover: got floors %v, want %v", got, versions)
	}
}

func TestTakenOverModuleKeepsItsInstalledVersion(t *testing.T) {
	beta := labelledTemplate(v1beta2.LabelBeta, v1beta2.True)
	gated := usualWorld().installed("keda", "1.0.0")
	gated.request.Gates = map[rollout.Track]rollout.Decision{
		{Module: "keda", Channel: "regular"}: {Version: "1.1.0", HeldReason: "waits"},
	}
	for name, c := range map[string]struct {
		world *world
		want  []string
		held  string
	}{
		"Channel has a newer version": {
			usualWorld().channel("fast").installed("keda", "1.0.0"), []string{"keda@1.0.0 fast"}, "1.1.0 follows",
		},
		"Channel has an older version": {
			usualWorld().installed("keda", "1.1.0"), []string{"keda@1.1.0 regular"}, "1.0.0 follows",
		},
		"Module pinned to a different version": {
			usualWorld().askNothingBut("keda", func(m *v1beta2.Module) { m.Version = "1.1.0" }).installed("keda", "1.0.0"),
			[]string{"keda@1.0.0"}, "1.1.0 follows"},
		"Rollout selects a different version": {gated, []string{"keda@1.0.0 regular"}, "1.1.0 follows"},
		"Module no longer requested": {
			newWorld().template("keda", "1.0.0").meta("keda").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, "",
		},
		"Module no longer offered to the Kyma": {
			newWorld().template("keda", "1.0.0", beta).meta("keda", "regular=1.0.0").ask("keda").
				installed("keda", "1.0.0"), []string{"keda@1.0.0 regular"}, "",
		},
		"Mandatory module with a newer version": {newWorld().template("warden", "1.0.0").template("warden", "1.1.0").
			meta("warden").edit(mandatoryMeta("1.1.0")).installed("warden", "1.0.0"),
			[]string{"warden@1.0.0 mandatory"}, "1.1.0 follows"},
		"Mandatory module with a newer version in the runtime": {newWorld().template("warden", "1.0.0").
			template("warden", "1.1.0").meta("warden").edit(mandatoryMeta("1.1.0")).
			has("warden", "1.1.0").installed("warden", "1.0.0"),
			[]string{"warden@1.1.0 mandatory",
				"Warning OlderVersionAsked: module warden stays at version 1.1.0: lifecycle-manager installed " +
					"1.0.0, which is older"}, ""},
		"Module that was returned to lifecycle-manager while its upgrade waited": {usualWorld().has("keda", "1.1.0").
			returned("keda", "1.1.0").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, ""},
		"Module without a ModuleReleaseMeta": {
			newWorld().older("keda-fast", "keda", "fast", "1.0.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				older("keda-regular", "keda", "regular", "1.1.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				ask("keda").installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular"}, "1.1.0 follows"},
		"Installed version missing in the catalog": {usualWorld().installed("keda", "0.9.0"),
			[]string{
				"Warning ModuleNotInherited: module keda is not changed and cannot be taken over in version 0.9.0: " +
					`module keda: version 0.9.0 in channel "regular" has no ModuleTemplate: add keda-0.9.0; keep that version in the catalog until the agent has adopted the module`}, ""},
		"Module that the Kyma declares unmanaged": {
			usualWorld().askNothingBut("keda", unmanaged).installed("keda", "1.0.0"),
			[]string{"keda@1.0.0 regular unmanaged"}, "",
		},
		"Module that is unmanaged before and after the takeover": {
			usualWorld().askNothingBut("keda", unmanaged).installed("keda", "1.0.0").untended(),
			[]string{"keda@1.0.0 regular unmanaged"}, "",
		},
		"Module that is unmanaged before and managed after the takeover": {
			usualWorld().installed("keda", "1.0.0").untended(), []string{"keda@1.0.0 regular"}, "",
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
					t.Errorf("module %s: got inherited objects %v", m.Module, m.Inherited)
				}
			}
			for _, i := range c.world.request.Inherited {
				if !slices.Contains(got.RequestedNames, i.Module) {
					t.Errorf("module %s can be removed: got asked modules %v", i.Module, got.RequestedNames)
				}
			}
			if (c.held == "") != (len(got.Remarks) == 0) || c.held != "" &&
				!strings.Contains(got.Remarks[0].Message, c.held) {
				t.Errorf("got remarks %+v, want %q", got.Remarks, c.held)
			}
			if got.State.Takeover != bundle.TakeoverAdopt {
				t.Errorf("got phase %q, want %q", got.State.Takeover, bundle.TakeoverAdopt)
			}
		})
	}
}

func TestModuleThatCannotBeTakenOverKeepsItsVersion(t *testing.T) {
	w := usualWorld().installed("keda", "1.5.0")
	if got := w.resolve(t); got.Versions["keda"] != "1.5.0" || len(got.State.Manifests) != 0 {
		t.Errorf("got versions %v and manifests %+v, want keda 1.5.0 without a manifest", got.Versions,
			got.State.Manifests)
	}
}

func TestAdoptedModuleFollowsItsChannel(t *testing.T) {
	w := usualWorld().channel("fast").installed("keda", "1.0.0").published(t)
	w.request.Inherited = nil
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.1.0 fast"}) ||
		len(got.State.Manifests[0].Inherited) != 0 {
		t.Errorf("got %q with inherited objects %v, want keda 1.1.0 without such objects", lines,
			got.State.Manifests[0].Inherited)
	}
}

func TestModulesReturnedToLifecycleManagerStayUnchanged(t *testing.T) {
	w := usualWorld().installed("keda", "1.0.0").published(t).channel("fast").askNothingBut("mail")
	w.request.Takeover, w.request.Versions = bundle.TakeoverRelease,
		map[string]string{"keda": "1.0.0", "warden": "2.0.0"}
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.0.0 regular"}) ||
		got.State.Takeover != bundle.TakeoverRelease {
		t.Errorf("got %q in phase %q, want keda 1.0.0 in phase release", lines, got.State.Takeover)
	}
	if !slices.Equal(got.RequestedNames, []string{"keda", "warden"}) {
		t.Errorf("got asked modules %v, want keda and warden", got.RequestedNames)
	}
}

func TestRuntimeKeepsItsModulesUntilItsRequestIsKnown(t *testing.T) {
	w := usualWorld().installed("keda", "1.0.0").published(t).askNothingBut("mail")
	w.request.Takeover, w.request.RequestUnknown = bundle.TakeoverAdopt, true
	got := w.resolve(t)
	if lines := outline(got); !slices.Equal(lines, []string{"keda@1.0.0 regular"}) ||
		!slices.Equal(got.RequestedNames, []string{"keda"}) {
		t.Errorf("got %q and asked modules %v, want only keda", lines, got.RequestedNames)
	}
	w.request.LastState.Takeover = bundle.TakeoverRelease // since then, lifecycle-manager may have changed the version
	if lines := outline(w.resolve(t)); len(lines) != 0 {
		t.Errorf("got manifests %q of modules that were given back", lines)
	}
}
