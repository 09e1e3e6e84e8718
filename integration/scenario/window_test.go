package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// dated returns a maintenance window between two dates, in the policy's notation.
func dated(t *testing.T, begin, end time.Time) string {
	t.Helper()
	text, err := json.Marshal(window.Window{
		Begin: begin.UTC().Format(time.RFC3339), End: end.UTC().Format(time.RFC3339),
	})
	must(t, err)
	return string(text)
}

// startFleetWithWindows starts a fleet in which the maintenance window for runtimes with plan "calm" is open. All other
// runtimes have their window in 2099.
func startFleetWithWindows(t *testing.T) *fleet.Fleet {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.json")
	must(t, os.WriteFile(policy,
		fmt.Appendf(nil, `{"rules": [{"match": {"plan": "^calm$"}, "windows": [%s]}], "default": %s}`,
			dated(t, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)),
			dated(t, time.Date(2099, 1, 3, 21, 0, 0, 0, time.UTC), time.Date(2099, 1, 4, 0, 0, 0, 0, time.UTC))),
		0o600))
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--maintenance-policy", policy}})
	for _, version := range []sample.Version{sample.Scaler("1.9.0"), sample.Scaler("2.0.0"), sample.Mailer("1.1.0"),
		sample.Mailer("1.2.0")} {
		version.RequiresDowntime = true
		must(t, f.Offer(t.Context(), version))
	}
	return f
}

// amend changes the runtime's Kyma in the control plane.
func amend(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, change func(*v1beta2.Kyma)) {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	before := record.DeepCopy()
	change(record)
	must(t, f.Control.Patch(t.Context(), record, client.MergeFrom(before)))
}

func moduleOf(kyma *v1beta2.Kyma, name string) v1beta2.ModuleStatus {
	for _, m := range kyma.Status.Modules {
		if m.Name == name {
			return m
		}
	}
	return v1beta2.ModuleStatus{}
}

// untilWaiting waits until the control plane and the runtime report the module as Ready in this version. Both must also
// report that its upgrade waits for the given reason.
func untilWaiting(t *testing.T, r *fleet.Runtime, module, version, forWhat string) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("both sides of %s report that the upgrade of %s waits", r.ID, module),
		func() (bool, string) {
			own, err := r.Kyma(t.Context())
			if err != nil {
				return false, err.Error()
			}
			record, err := r.Record(t.Context())
			if err != nil {
				return false, err.Error()
			}
			for _, kyma := range []*v1beta2.Kyma{own, record} {
				m := moduleOf(kyma, module)
				if !m.Maintenance || m.Version != version || m.State != v1beta2.StateReady ||
					!strings.Contains(m.Message, forWhat) {
					return false, fmt.Sprintf("%s/%s: %+v", kyma.Namespace, kyma.Name, m)
				}
			}
			return true, ""
		})
}

// checkUnmanagedDuringWindow makes mailer unmanaged and then managed again. These changes must not bypass the
// maintenance window.
func checkUnmanagedDuringWindow(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	t.Helper()
	manage := func(managed bool) {
		must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) { spec.Modules[0].Managed = managed }))
	}
	untilUnmanaged := func(what string, waits bool, sides ...func(context.Context) (*v1beta2.Kyma, error)) {
		until(t, 60*time.Second, what, func() (bool, string) {
			for _, side := range sides {
				kyma, err := side(t.Context())
				if err != nil {
					return false, err.Error()
				}
				if m := moduleOf(kyma, "mailer"); m.State != v1beta2.StateUnmanaged || m.Version != "1.1.0" ||
					m.Maintenance != waits || strings.Contains(m.Message, in2099) != waits {
					return false, fmt.Sprintf("%s: %+v", kyma.Namespace, m)
				}
			}
			err := r.API.Get(t.Context(), inKyma("mailer"), &v1beta2.Manifest{})
			return apierrors.IsNotFound(err), fmt.Sprint("the Manifest: ", err)
		})
	}
	manage(false)
	untilUnmanaged("the module is unmanaged", false, r.Kyma)
	untilQuiet(t, f)
	must(t, r.CrashAgent()) // the restarted agent reads its state from the existing objects
	manage(true)
	untilUnmanaged("both sides report that the module waits to be managed again", true, r.Kyma, r.Record)
}

func installedVersion(t *testing.T, r *fleet.Runtime, module string) string {
	t.Helper()
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(t.Context(), inKyma(module), manifest))
	return manifest.Spec.Version
}

const in2099 = "waits for the maintenance window from 2099-01-03T21:00:00Z to 2099-01-04T00:00:00Z"

func TestDowntimeUpgradesWaitForTheirWindow(t *testing.T) {
	suite.Long(t) // the short suite runs TestUpgradeWaitsForWindowAndRollbackDoesNot and TestUpgradesWaitForWindow
	ctx := t.Context()
	f := startFleetWithWindows(t)
	busy := runtimeWith(t, f, "busy", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	calm := runtimeWith(t, f, "calm", map[string]string{"scaler": "1.7.0"})
	amend(t, f, calm, func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelPlan] = "calm" })

	promote(t, f, "1.9.0")
	must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.1.0"),
		sample.Channel("fast", "1.1.0")))
	t.Run("upgrade starts in an open window", func(t *testing.T) {
		must(t, calm.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
	})
	t.Run("upgrade waits for its window and reports the time", func(t *testing.T) {
		untilWaiting(t, busy, "scaler", "1.7.0", "the upgrade to version 1.9.0 requires downtime and "+in2099)
		untilWaiting(t, busy, "mailer", "1.0.0", in2099)
		record, err := busy.Record(ctx)
		must(t, err)
		if record.Status.State != v1beta2.StateReady {
			t.Errorf("a runtime with waiting upgrades has state %s", record.Status.State)
		}
		if why, err := f.Why(ctx, "busy", "scaler"); err != nil ||
			!strings.Contains(why, "module scaler stays at version 1.7.0: the upgrade to version 1.9.0") {
			t.Errorf("unexpected output of why: %s, error %v", why, err)
		}
	})
	t.Run("drift is corrected while the upgrade waits", func(t *testing.T) {
		config, err := settings(ctx, busy)
		must(t, err)
		must(t, busy.API.Delete(ctx, config))
		until(t, 30*time.Second, "the agent recreates the deleted object", func() (bool, string) {
			config, err := settings(ctx, busy)
			return err == nil && config.Data["version"] == "1.7.0", fmt.Sprint(config.Data, err)
		})
	})
	t.Run("removal does not wait", func(t *testing.T) {
		must(t, busy.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:0:0] }))
		must(t, busy.UntilGone(ctx, "mailer"))
		must(t, busy.UntilGone(ctx, "scaler"))
	})
	t.Run("first installation does not wait", func(t *testing.T) {
		must(t, busy.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = []v1beta2.Module{managed("mailer")}
		}))
		must(t, busy.UntilState(ctx, "mailer", "1.1.0", v1beta2.StateReady))
	})
	t.Run("admin needs the operator's permission to upgrade before the window", func(t *testing.T) {
		must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.2.0"),
			sample.Channel("fast", "1.2.0")))
		untilWaiting(t, busy, "mailer", "1.1.0", in2099)
		checkUnmanagedDuringWindow(t, f, busy)
		must(t, busy.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.SkipMaintenanceWindows = true }))
		until(t, time.Minute, "the control plane records the request", func() (bool, string) {
			record, err := busy.Record(ctx)
			return err == nil && record.Status.Runtime.Requested.Spec.SkipMaintenanceWindows, fmt.Sprint(err)
		})
		record, err := busy.Record(ctx)
		must(t, err)
		if m := moduleOf(record, "mailer"); !m.Maintenance || m.Version != "1.1.0" {
			t.Errorf("the module was upgraded without permission: %+v", m)
		}
		own, err := busy.Kyma(ctx)
		must(t, err)
		before := own.DeepCopy()
		own.Spec.SkipMaintenanceWindows = false
		own.Annotations = map[string]string{v1beta2.AnnotationUpgradeAt: time.Now().UTC().Format(time.RFC3339)}
		must(t, busy.API.Patch(ctx, own, client.MergeFrom(before)))
		amend(t, f, busy, func(k *v1beta2.Kyma) {
			k.Annotations = map[string]string{v1beta2.AnnotationEarlyUpgrades: v1beta2.True}
		})
		must(t, busy.UntilState(ctx, "mailer", "1.2.0", v1beta2.StateReady))
		record, err = busy.Record(ctx)
		must(t, err)
		if m := moduleOf(record, "mailer"); m.Maintenance {
			t.Errorf("the upgrade still waits: %+v", m)
		}
	})
}

func TestDisconnectedRuntimeUpgradesInItsWindow(t *testing.T) {
	suite.Long(t) // the short suite runs TestUpgradesWaitForWindow
	ctx := t.Context()
	f := startFleetWithWindows(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	// The upgrade must also wait if its bundle was published while the agent was not running.
	r.Agent().Kill()
	promote(t, f, "2.0.0")
	untilQuiet(t, f)
	started := time.Now()
	must(t, r.StartAgent())
	untilWaiting(t, r, "scaler", "1.7.0", in2099)
	known := time.Since(started) // how long an agent takes to read the window on this machine

	amend(t, f, r, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: `[{"days":["Sat"],"begin":"21:00"}]`}
	})
	until(t, 30*time.Second, "invalid windows are refused with their field", func() (bool, string) {
		why, err := f.Why(ctx, "one")
		return err == nil && strings.Contains(why, `annotation kyma-pull.dev/maintenance-windows: [0].begin: "21:00"`),
			why
	})
	if version := installedVersion(t, r, "scaler"); version != "1.7.0" {
		t.Errorf("the module was upgraded to %s with invalid windows", version)
	}

	begin := time.Now().Add(20*time.Second + 4*known).Truncate(time.Second)
	amend(t, f, r, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{
			v1beta2.AnnotationMaintenanceWindows: "[" + dated(t, begin, begin.Add(2*time.Hour)) + "]",
		}
	})
	until(t, 20*time.Second, "the agent reads the runtime's own window", func() (bool, string) {
		own, err := r.Kyma(ctx)
		m := moduleOf(own, "scaler")
		return err == nil && strings.Contains(m.Message, begin.UTC().Format(time.RFC3339)), fmt.Sprint(m, err)
	})
	f.Publisher().Kill()
	r.Agent().Kill()
	must(t, f.Registry.Stop())
	must(t, r.StartAgent())
	upgraded := time.Time{}
	until(t, time.Until(begin)+fleet.LongTimeout, "the upgrade starts without an operator", func() (bool, string) {
		version := installedVersion(t, r, "scaler")
		if version == "2.0.0" && upgraded.IsZero() {
			upgraded = time.Now()
		}
		config, err := settings(ctx, r)
		return err == nil && config.Data["version"] == "2.0.0", fmt.Sprint(version, err)
	})
	if upgraded.Before(begin) {
		t.Errorf("upgraded at %s, before its window began at %s", upgraded, begin)
	}

	must(t, f.Registry.Resume())
	must(t, f.StartPublisher())
	must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateReady))
	record, err := r.Record(ctx)
	must(t, err)
	if m := moduleOf(record, "scaler"); m.Maintenance || m.Message != "" {
		t.Errorf("unexpected status after the upgrade: %+v", m)
	}
}

// A runtime's admin can schedule an upgrade before the operator's maintenance window. The agent follows the schedule
// even while it is disconnected.
func TestRuntimeAdminSchedulesUpgradeWhileDisconnected(t *testing.T) {
	ctx := t.Context()
	f := startFleetWithWindows(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	choose := func(at string) {
		t.Helper()
		own, err := r.Kyma(ctx)
		must(t, err)
		before := own.DeepCopy()
		own.Annotations = map[string]string{v1beta2.AnnotationUpgradeAt: at}
		must(t, r.API.Patch(ctx, own, client.MergeFrom(before)))
	}
	amend(t, f, r, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationEarlyUpgrades: v1beta2.True}
	})
	promote(t, f, "2.0.0")
	untilWaiting(t, r, "scaler", "1.7.0", v1beta2.AnnotationUpgradeAt)
	choose("2098-01-01T00:00:00Z")
	untilWaiting(t, r, "scaler", "1.7.0", "starts at 2098-01-01T00:00:00Z, as the runtime's admin chose")

	f.Publisher().Kill()
	must(t, f.Registry.Stop())
	choose(time.Now().UTC().Format(time.RFC3339))
	until(t, fleet.LongTimeout, "the disconnected runtime is upgraded", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["version"] == "2.0.0", fmt.Sprint(err)
	})
	must(t, f.Registry.Resume())
	must(t, f.StartPublisher())
	must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateReady))
}
