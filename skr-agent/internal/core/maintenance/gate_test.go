package maintenance

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

// friday is a day before the window of the schedule opens, 20 November 2026; its windows are on Saturdays from 21 to 24
// o'clock.
var friday = time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)

// scene is the start of each case: keda 1.0.0 is installed, the bundle has 1.1.0, which requires downtime, and it is
// Friday.
type scene struct {
	bundle    bundle.Bundle
	expired   bool
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
	const forNone = "the upgrade to version 1.1.0 requires downtime and has no maintenance window ahead: ask for one " +
		"where the control plane is run"
	const tooShort = "the upgrade to version 1.1.0 requires downtime and has no maintenance window ahead that stays " +
		"open for 20m0s: "
	const wayOut = ": ask for a longer one where the control plane is run"
	const orSkip = ", or set spec.skipMaintenanceWindows in the runtime's Kyma"
	const orEarlier = ", or for an earlier time in the annotation kyma-pull.dev/upgrade-at of the runtime's Kyma"
	const fromSaturday = ", at the latest in the maintenance window from 2026-11-21T21:00:00Z to 2026-11-22T00:00:00Z"
	early := func(s *scene) { s.bundle.State.Maintenance.Early = true }
	at := func(text string) func(*scene) {
		return func(s *scene) { s.kyma.Annotations = map[string]string{v1beta2.AnnotationUpgradeAt: text} }
	}
	for name, c := range map[string]struct {
		scene *scene
		want  string // empty when it does not wait
	}{
		"An upgrade that requires downtime waits for its window": {waitingScene(), forSaturday},
		"It begins with the window":                              {waitingScene().later(24 * time.Hour), ""},
		"It begins while enough of the window is left": {
			waitingScene().later(26*time.Hour + 40*time.Minute), "",
		},
		"It waits for the next when too little is left": {
			waitingScene().later(26*time.Hour + 40*time.Minute + time.Second), forTheNext,
		},
		"It waits for the next when the runtime was away": {waitingScene().later(27 * time.Hour), forTheNext},
		"Without a schedule nothing waits": {
			waitingScene().with(func(s *scene) { s.bundle.State.Maintenance = nil }), "",
		},
		"A schedule without windows is not none": {
			waitingScene().with(func(s *scene) { s.bundle.State.Maintenance = &window.Schedule{} }), forNone,
		},
		"An open window that is too short is reported": {waitingScene().later(24 * time.Hour).with(func(s *scene) {
			s.bundle.State.Maintenance.Windows = []window.Window{
				{Begin: "2026-11-21T20:00:00Z", End: "2026-11-21T21:15:00Z"},
			}
		}), tooShort + "the one from 2026-11-21T20:00:00Z to 2026-11-21T21:15:00Z is too short" + wayOut},
		"So are windows that always are": {waitingScene().with(func(s *scene) {
			s.bundle.State.Maintenance.Windows[0].End = "21:10:00Z"
		}),
			tooShort + "the one from 2026-11-21T21:00:00Z to 2026-11-21T21:10:00Z is too short" + wayOut},
		"An upgrade without downtime does not wait": {
			waitingScene().with(func(s *scene) { s.bundle.State.Manifests[0].RequiresDowntime = false }), "",
		},
		"A first installation does not wait": {waitingScene().with(func(s *scene) { s.installed = nil }), ""},
		"Drift of an installed version is corrected": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "1.1.0" }), "",
		},
		"A way back does not wait": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "1.2.0" }), "",
		},
		"Versions that cannot be compared wait": {
			waitingScene().with(func(s *scene) { s.installed[0].Spec.Version = "latest" }), forSaturday,
		},
		"A removal does not wait": {
			waitingScene().with(func(s *scene) { s.installed[0].DeletionTimestamp = &metav1.Time{Time: friday} }), "",
		},
		"Letting go of a module does not wait": {
			waitingScene().with(func(s *scene) { s.bundle.State.Manifests[0].Unmanaged = true }), "",
		},
		"A module that is managed again waits in the version that was left": {
			waitingScene().with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.0.0"} }),
			forSaturday + "; until then the module stays unmanaged"},
		"In the version that was left it is managed again at once": {
			waitingScene().with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.1.0"} }),
			"",
		},
		"In the window it is managed again": {
			waitingScene().later(24 * time.Hour).
				with(func(s *scene) { s.installed, s.unmanaged = nil, map[string]string{"keda": "1.0.0"} }), "",
		},
		"A module on its way out does not wait": {
			waitingScene().
				with(func(s *scene) {
					s.bundle.State.Leaving, s.bundle.State.Manifests = s.bundle.State.Manifests,
						nil
				}), "",
		},
		"Nothing waits when all of it goes": {
			waitingScene().with(func(s *scene) { s.bundle.Statement.Predicate.Deleting = true }), "",
		},
		"A runtime's admin cannot skip windows": {
			waitingScene().with(func(s *scene) { s.kyma.Spec.SkipMaintenanceWindows = true }), forSaturday,
		},
		"A runtime's admin skips windows where the operator allows it": {
			waitingScene().with(early).with(func(s *scene) { s.kyma.Spec.SkipMaintenanceWindows = true }), "",
		},
		"The operator's permission alone upgrades nothing": {
			waitingScene().with(early), forSaturday + orEarlier,
		},
		"Without a window ahead the admin can skip it": {waitingScene().with(func(s *scene) {
			s.bundle.State.Maintenance = &window.Schedule{Early: true}
		}),
			forNone + orSkip},
		"A runtime's admin cannot choose a time": {waitingScene().with(at("2026-11-20T20:59:00Z")), forSaturday},
		"A chosen time that is over upgrades":    {waitingScene().with(early).with(at("2026-11-20T20:59:00Z")), ""},
		"A chosen time ahead is awaited": {waitingScene().with(early).with(at("2026-11-21T03:00:00+01:00")),
			"the upgrade to version 1.1.0 requires downtime and begins at 2026-11-21T02:00:00Z, as the runtime's " +
				"admin chose" + fromSaturday},
		"A chosen time after the window changes nothing": {
			waitingScene().with(early).with(at("2026-11-23T00:00:00Z")), forSaturday + orEarlier,
		},
		"A choice ends with the window after it": {
			waitingScene().later(28 * time.Hour).with(early).with(at("2026-11-20T20:59:00Z")), forTheNext + orEarlier,
		},
		"A chosen time that cannot be read is reported": {waitingScene().with(early).with(at("soon")),
			forSaturday + ` (annotation kyma-pull.dev/upgrade-at: "soon": want a time such as 2026-11-21T21:00:00Z)`},
		"A chosen time does not count by an expired bundle": {waitingScene().with(early).
			with(at("2026-11-20T20:59:00Z")).with(func(s *scene) { s.expired = true }),
			"the upgrade to version 1.1.0 requires downtime and waits for a newer bundle, as the one in force has " +
				"expired"},
		"Before the runtime has a Kyma its seed counts": {
			waitingScene().with(early).
				with(func(s *scene) { s.kyma, s.bundle.State.Kyma.Spec.SkipMaintenanceWindows = nil, true }), "",
		},
		"The seed has no effect on a runtime with a Kyma": {
			waitingScene().with(early).with(func(s *scene) { s.bundle.State.Kyma.Spec.SkipMaintenanceWindows = true }),
			forSaturday + orEarlier,
		},
		"Nothing begins by a bundle whose time is over": {waitingScene().later(24 * time.Hour).
			with(func(s *scene) { s.expired = true }),
			"the upgrade to version 1.1.0 requires downtime and waits for a newer bundle, as the one in force has " +
				"expired"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene
			gate := New(&s.bundle, s.expired, s.kyma, s.unmanaged, s.now)
			waiting := gate.Waiting(&s.bundle, s.installed)
			if got, waits := waiting["keda"]; got != c.want || waits != (c.want != "") || len(waiting) > 1 {
				t.Errorf("got %v\nwant %q", waiting, c.want)
			}
			// Holds and Waiting must agree.
			for i := range s.installed {
				for _, want := range s.bundle.State.Manifests {
					if held := gate.Holds(&s.installed[i], want); held != (c.want != "") &&
						!s.bundle.Statement.Predicate.Deleting {
						t.Errorf("held %t", held)
					}
				}
			}
		})
	}
}

func TestGateOpensAtNextWindow(t *testing.T) {
	s := waitingScene()
	gate := New(&s.bundle, false, s.kyma, s.unmanaged, s.now)
	if want := friday.Add(24 * time.Hour); !gate.Opens.Equal(want) {
		t.Errorf("opens at %s, want %s", gate.Opens, want)
	}
	s.bundle.State.Maintenance.Early, s.kyma.Annotations = true, map[string]string{
		v1beta2.AnnotationUpgradeAt: friday.Add(time.Hour).Format(time.RFC3339),
	}
	if gate := New(&s.bundle, false, s.kyma, nil, s.now); !gate.Opens.Equal(friday.Add(time.Hour)) {
		t.Errorf("a chosen time opens it at %s", gate.Opens)
	}
	s = waitingScene()
	if again := New(&s.bundle, false, s.kyma, nil, gate.Opens); again.Holds(&s.installed[0],
		s.bundle.State.Manifests[0]) {
		t.Error("closed at its reported opening time")
	}
	if gate := New(nil, false, nil, nil, friday); !reflect.DeepEqual(gate, Gate{}) || len(gate.Waiting(nil, nil)) != 0 {
		t.Errorf("without a bundle there is %+v", gate)
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
		unmanaged bool // the bundle's, in version 1.1.0
		known     map[string]string
		kyma      *v1beta2.Kyma
		installed []v1beta2.Manifest
		want      string
	}{
		"it is about to be left":           {true, nil, managed, []v1beta2.Manifest{there}, "1.0.0"},
		"its Manifest is gone":             {true, map[string]string{"keda": "1.0.0"}, managed, nil, "1.0.0"},
		"the agent was restarted":          {true, nil, kyma, nil, "1.0.0"},
		"nothing is known of it":           {true, nil, nil, nil, "1.1.0"},
		"it becomes managed again":         {false, nil, kyma, nil, "1.0.0"},
		"its last Manifest is still there": {false, nil, managed, []v1beta2.Manifest{going}, "1.0.0"},
		"it is managed again": {
			false, map[string]string{"keda": "1.0.0"}, kyma, []v1beta2.Manifest{there}, "",
		},
		"it was never there": {false, nil, managed, nil, ""},
	} {
		b := &bundle.Bundle{}
		b.State.Manifests = []bundle.Manifest{{Name: "keda", Module: "keda", Version: "1.1.0", Unmanaged: c.unmanaged}}
		if got := Unmanaged(b, c.known, c.kyma, c.installed); got["keda"] != c.want || len(got) > 1 {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	if got := Unmanaged(&bundle.Bundle{}, map[string]string{"keda": "1.0.0"}, kyma, nil); len(got) != 0 {
		t.Errorf("a module that was removed from the bundle is in %v", got)
	}
}
