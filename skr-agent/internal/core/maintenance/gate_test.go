package maintenance

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

// friday is one day before the next window. The windows are on Saturdays from 21:00 to 24:00.
var friday = time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)

// scene is the state of a test case: the bundle, the runtime's Kyma and the installed modules.
type scene struct {
	bundle    bundle.Bundle
	frozen    string
	kyma      *v1beta2.Kyma
	installed []v1beta2.Manifest
	unmanaged map[string]string
	now       time.Time
}

func waitingScene() *scene {
	s := &scene{
		kyma: &v1beta2.Kyma{},
		now:  friday,
		installed: []v1beta2.Manifest{
			{ObjectMeta: metav1.ObjectMeta{Name: "keda"}, Spec: v1beta2.ManifestSpec{Version: "1.0.0"}},
		},
	}
	s.bundle.State.Manifests = []bundle.Manifest{
		{Name: "keda", Module: "keda", Version: "1.1.0", RequiresDowntime: true},
	}
	s.bundle.State.Maintenance = &window.Schedule{
		Windows: []window.Window{
			{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "00:00:00Z"},
		}, Minimum: metav1.Duration{Duration: 20 * time.Minute},
	}
	return s
}

func (s *scene) with(change func(*scene)) *scene {
	change(s)
	return s
}

func (s *scene) later(d time.Duration) *scene {
	s.now = s.now.Add(d)
	return s
}

func TestUpgradesWaitForWindow(t *testing.T) {
	const forSaturday = "the upgrade to version 1.1.0 requires downtime and waits for the maintenance window from " +
		"2026-11-21T21:00:00Z to 2026-11-22T00:00:00Z"
	const forTheNext = "the upgrade to version 1.1.0 requires downtime and waits for the maintenance window from " +
		"2026-11-28T21:00:00Z to 2026-11-29T00:00:00Z"
	const forNone = "the upgrade to version 1.1.0 requires downtime and has no future maintenance window: request " +
		"one from the operator of the control plane"
	const tooShort = "the upgrade to version 1.1.0 requires downtime and has no future maintenance window of at " +
		"least 20m0s "
	const wayOut = ": request a longer window from the operator of the control plane"
	const orSkip = ", or set spec.skipMaintenanceWindows in the runtime's Kyma"
	const orEarlier = ", or for an earlier time in annotation kyma-pull.dev/upgrade-at of the runtime's Kyma"
	const fromSaturday = ", or at the latest in the maintenance window from 2026-11-21T21:00:00Z to " +
		"2026-11-22T00:00:00Z"
	const expired = "the last accepted bundle expired"
	const frozenUpgrade = "the change to version 1.1.0 waits for a newer bundle, because " + expired
	early := func(s *scene) { s.bundle.State.Maintenance.Early = true }
	at := func(text string) func(*scene) {
		return func(s *scene) { s.kyma.Annotations = map[string]string{v1beta2.AnnotationUpgradeAt: text} }
	}
	for name, c := range map[string]struct {
		scene *scene
		want  string // empty if the upgrade does not wait
	}{
		"upgrade that requires downtime waits for the window": {waitingScene(), forSaturday},
		"upgrade starts when the window opens":                {waitingScene().later(24 * time.Hour), ""},
		"upgrade starts while the rest of the window is long enough": {
			waitingScene().later(26*time.Hour + 40*time.Minute), "",
		},
		"upgrade waits for the next window if the rest is too short": {
			waitingScene().later(26*time.Hour + 40*time.Minute + time.Second), forTheNext,
		},
		"upgrade waits for the next window after a missed window": {waitingScene().later(27 * time.Hour), forTheNext},
		"upgrade without a schedule does not wait": {
			waitingScene().with(func(s *scene) { s.bundle.State.Maintenance = nil }), "",
		},
		"upgrade waits if the schedule has no windows": {
			waitingScene().with(func(s *scene) { s.bundle.State.Maintenance = &window.Schedule{} }), forNone,
		},
		"upgrade waits if the open window is too short": {waitingScene().later(24 * time.Hour).with(func(s *scene) {
			s.bundle.State.Maintenance.Windows = []window.Window{
				{Begin: "2026-11-21T20:00:00Z", End: "2026-11-21T21:15:00Z"},
			}
		}), tooShort + "(the window from 2026-11-21T20:00:00Z to 2026-11-21T21:15:00Z is too short)" + wayOut},
		"upgrade waits if all windows are too short": {waitingScene().with(func(s *scene) {
			s.bundle.State.Maintenance.Windows[0].End = "21:10:00Z"
		}),
			tooShort + "(the window from 2026-11-21T21:00:00Z to 2026-11-21T21:10:00Z is too short)" + wayOut},
		"upgrade without downtime does not wait": {
			waitingScene().with(func(s *scene) { s.bundle.State.Manifests[0].RequiresDowntime = false }), "",
		},
		"first installation does not wait": {waitingScene().with(func(s *scene) { s.installed = nil }), ""},
		"drift correction of the installed version does not wait": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "1.1.0" }), "",
		},
		"downgrade does not wait": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "1.2.0" }), "",
		},
		"upgrade from a version that is not semver waits": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "latest" }), forSaturday,
		},
		"removal does not wait": {
			waitingScene().with(func(s *scene) { s.installed[0].DeletionTimestamp = &metav1.Time{Time: friday} }), "",
		},
		"module that becomes unmanaged does not wait": {
			waitingScene().with(func(s *scene) { s.bundle.State.Manifests[0].Unmanaged = true }), "",
		},
		"unmanaged module with an older version waits to become managed": {
			waitingScene().with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.0.0"} }),
			forSaturday + "; the module stays unmanaged until then"},
		"unmanaged module with the same version becomes managed without waiting": {
			waitingScene().with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.1.0"} }),
			"",
		},
		"unmanaged module with an older version becomes managed in the window": {
			waitingScene().later(24 * time.Hour).
				with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.0.0"} }), "",
		},
		"module that is being removed does not wait": {
			waitingScene().
				with(func(s *scene) {
					s.bundle.State.Leaving, s.bundle.State.Manifests = s.bundle.State.Manifests,
						nil
				}), "",
		},
		"no upgrade waits if the Kyma is being deleted": {
			waitingScene().with(func(s *scene) { s.bundle.Statement.Predicate.Deleting = true }), "",
		},
		"runtime's admin cannot skip windows without permission": {
			waitingScene().with(func(s *scene) { s.kyma.Spec.SkipMaintenanceWindows = true }), forSaturday,
		},
		"runtime's admin skips windows with permission": {
			waitingScene().with(early).with(func(s *scene) { s.kyma.Spec.SkipMaintenanceWindows = true }), "",
		},
		"upgrade waits if the admin has permission but chose no time": {
			waitingScene().with(early), forSaturday + orEarlier,
		},
		"message offers to skip windows if the schedule has no windows": {waitingScene().with(func(s *scene) {
			s.bundle.State.Maintenance = &window.Schedule{Early: true}
		}),
			forNone + orSkip},
		"runtime's admin cannot choose a time without permission": {
			waitingScene().with(at("2026-11-20T20:59:00Z")), forSaturday,
		},
		"upgrade starts after the chosen time": {waitingScene().with(early).with(at("2026-11-20T20:59:00Z")), ""},
		"upgrade waits for the chosen time": {waitingScene().with(early).with(at("2026-11-21T03:00:00+01:00")),
			"the upgrade to version 1.1.0 requires downtime and starts at 2026-11-21T02:00:00Z, as the runtime's " +
				"admin chose" + fromSaturday},
		"chosen time after the next window has no effect": {
			waitingScene().with(early).with(at("2026-11-23T00:00:00Z")), forSaturday + orEarlier,
		},
		"chosen time has no effect after the following window": {
			waitingScene().later(28 * time.Hour).with(early).with(at("2026-11-20T20:59:00Z")), forTheNext + orEarlier,
		},
		"message contains the error of an invalid time": {waitingScene().with(early).with(at("soon")),
			forSaturday +
				` (annotation kyma-pull.dev/upgrade-at: "soon": must be a time such as 2026-11-21T21:00:00Z)`},
		"chosen time has no effect with an expired bundle": {waitingScene().with(early).
			with(at("2026-11-20T20:59:00Z")).with(func(s *scene) { s.frozen = expired }),
			frozenUpgrade},
		"Kyma in the bundle skips windows before the runtime has a Kyma": {
			waitingScene().with(early).
				with(func(s *scene) { s.kyma, s.bundle.State.Kyma.Spec.SkipMaintenanceWindows = nil, true }), "",
		},
		"Kyma in the bundle has no effect on a runtime with a Kyma": {
			waitingScene().with(early).with(func(s *scene) { s.bundle.State.Kyma.Spec.SkipMaintenanceWindows = true }),
			forSaturday + orEarlier,
		},
		"upgrade without downtime waits if the bundle expired": {waitingScene().with(func(s *scene) {
			s.frozen, s.bundle.State.Maintenance, s.bundle.State.Manifests[0].RequiresDowntime = expired, nil, false
		}), frozenUpgrade},
		"installation waits if the bundle expired": {
			waitingScene().with(func(s *scene) { s.frozen, s.installed = expired, nil }), frozenUpgrade,
		},
		"downgrade waits if the bundle expired": {
			waitingScene().with(func(s *scene) { s.frozen, s.installed[0].Spec.Version = expired, "1.2.0" }),
			frozenUpgrade,
		},
		"unmanaged module with the same version waits to become managed if the bundle expired": {
			waitingScene().with(func(s *scene) {
				s.frozen, s.installed, s.unmanaged = expired, nil, map[string]string{"keda": "1.1.0"}
			}), frozenUpgrade + "; the module stays unmanaged until then",
		},
		"skipped windows have no effect with an expired bundle": {
			waitingScene().with(early).with(func(s *scene) {
				s.frozen, s.kyma.Spec.SkipMaintenanceWindows = expired, true
			}), frozenUpgrade,
		},
		"drift correction does not wait if the bundle expired": {
			waitingScene().with(func(s *scene) { s.frozen, s.installed[0].Spec.Version = expired, "1.1.0" }), "",
		},
		"upgrade waits in the window if the bundle expired": {waitingScene().later(24 * time.Hour).
			with(func(s *scene) { s.frozen = expired }),
			frozenUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene
			gate := New(&s.bundle, s.frozen, s.kyma, s.unmanaged, s.now)
			waiting := gate.WaitingUpgrades(&s.bundle, s.installed)
			if got, waits := waiting["keda"]; got != c.want || waits != (c.want != "") || len(waiting) > 1 {
				t.Errorf("got waiting modules %v\nwant keda with %q", waiting, c.want)
			}
			// BlocksUpgrade and WaitingUpgrades must agree.
			for i := range s.installed {
				for _, want := range s.bundle.State.Manifests {
					if held := gate.BlocksUpgrade(&s.installed[i], want); held != (c.want != "") &&
						!s.bundle.Statement.Predicate.Deleting {
						t.Errorf("got Holds %t, want %t", held, !held)
					}
				}
			}
		})
	}
}

func TestGateOpensAtNextWindow(t *testing.T) {
	s := waitingScene()
	gate := New(&s.bundle, "", s.kyma, s.unmanaged, s.now)
	if want := friday.Add(24 * time.Hour); !gate.OpensAt.Equal(want) {
		t.Errorf("got opening time %s, want %s", gate.OpensAt, want)
	}
	s.bundle.State.Maintenance.Early, s.kyma.Annotations = true, map[string]string{
		v1beta2.AnnotationUpgradeAt: friday.Add(time.Hour).Format(time.RFC3339),
	}
	if gate := New(&s.bundle, "", s.kyma, nil, s.now); !gate.OpensAt.Equal(friday.Add(time.Hour)) {
		t.Errorf("got opening time %s, want the chosen time %s", gate.OpensAt, friday.Add(time.Hour))
	}
	s = waitingScene()
	if again := New(&s.bundle, "", s.kyma, nil, gate.OpensAt); again.BlocksUpgrade(&s.installed[0],
		s.bundle.State.Manifests[0]) {
		t.Error("the gate must be open at its opening time")
	}
	if gate := New(nil, "", nil, nil, friday); !reflect.DeepEqual(gate, Gate{}) ||
		len(gate.WaitingUpgrades(nil, nil)) != 0 {
		t.Errorf("got gate %+v without a bundle, want the zero value", gate)
	}
}

func TestWaitingUpgradeReasonDependsOnFutureWindows(t *testing.T) {
	for name, c := range map[string]struct {
		schedule window.Schedule
		want     reason.Reason
	}{
		"future window":            {*waitingScene().bundle.State.Maintenance, reason.WindowAwaited},
		"schedule without windows": {window.Schedule{}, reason.WindowMissing},
		"windows that are too short": {window.Schedule{
			Windows: []window.Window{{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "21:10:00Z"}},
			Minimum: metav1.Duration{Duration: 20 * time.Minute},
		}, reason.WindowMissing},
	} {
		t.Run(name, func(t *testing.T) {
			s := waitingScene()
			s.bundle.State.Maintenance = &c.schedule
			if got := New(&s.bundle, "", s.kyma, nil, s.now).Reason(); got != c.want {
				t.Errorf("got reason %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnmanagedModulesKeepVersionOfLastManifest(t *testing.T) {
	kyma := &v1beta2.Kyma{
		Status: v1beta2.KymaStatus{
			Modules: []v1beta2.ModuleStatus{{Name: "keda", Version: "1.0.0", State: v1beta2.StateUnmanaged}},
		},
	}
	managed := &v1beta2.Kyma{
		Status: v1beta2.KymaStatus{
			Modules: []v1beta2.ModuleStatus{{Name: "keda", Version: "1.0.0", State: v1beta2.StateReady}},
		},
	}
	going := v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "keda",
			Annotations: map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True},
		},
		Spec: v1beta2.ManifestSpec{Version: "1.0.0"},
	}
	there := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}, Spec: v1beta2.ManifestSpec{Version: "1.0.0"}}
	for name, c := range map[string]struct {
		unmanaged bool // the module is unmanaged in the bundle
		known     map[string]string
		kyma      *v1beta2.Kyma
		installed []v1beta2.Manifest
		want      string
	}{
		"unmanaged module has a Manifest": {true, nil, managed, []v1beta2.Manifest{there}, "1.0.0"},
		"Manifest was deleted": {
			true, map[string]string{"keda": "1.0.0"}, managed, nil, "1.0.0",
		},
		"Manifest was deleted before a restart of the agent": {true, nil, kyma, nil, "1.0.0"},
		"unmanaged module was never installed":               {true, nil, nil, nil, "1.1.0"},
		"module becomes managed":                             {false, nil, kyma, nil, "1.0.0"},
		"module becomes managed before its Manifest is deleted": {
			false, nil, managed, []v1beta2.Manifest{going}, "1.0.0",
		},
		"managed module has a new Manifest": {
			false, map[string]string{"keda": "1.0.0"}, kyma, []v1beta2.Manifest{there}, "",
		},
		"managed module was never installed": {false, nil, managed, nil, ""},
	} {
		b := &bundle.Bundle{}
		b.State.Manifests = []bundle.Manifest{{Name: "keda", Module: "keda", Version: "1.1.0", Unmanaged: c.unmanaged}}
		if got := UnmanagedVersions(b, c.known, c.kyma, c.installed); got["keda"] != c.want || len(got) > 1 {
			t.Errorf("%s: got versions %v, want %q for keda", name, got, c.want)
		}
	}
	if got := UnmanagedVersions(&bundle.Bundle{}, map[string]string{"keda": "1.0.0"}, kyma, nil); len(got) != 0 {
		t.Errorf("got versions %v, want none for a module that is not in the bundle", got)
	}
}
