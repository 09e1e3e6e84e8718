package agent

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/prove"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func readyManifest(version string) v1beta2.Manifest {
	m := v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Name:       "keda-1",
			Generation: 4,
			Labels:     map[string]string{v1beta2.LabelModuleName: "keda"},
		},
		Spec: v1beta2.ManifestSpec{Version: version},
	}
	m.Status.State = v1beta2.StateReady
	m.Status.Synced = []v1beta2.Resource{
		{Name: "app", Namespace: "apps"},
		{Name: "keda", GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}},
	}
	m.Status.Conditions = []metav1.Condition{
		{Type: v1beta2.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 4},
	}
	return m
}

func bundleWith(version string, defined ...fleet.Check) *bundle.Bundle {
	return &bundle.Bundle{State: bundle.DesiredState{Manifests: []bundle.Manifest{
		{
			Name: "keda-1", Module: "keda", Version: version, Checks: defined,
			CheckFor: metav1.Duration{Duration: time.Hour},
		},
	}}}
}

func newProving(t *testing.T) (*Agent, *int) {
	measured := new(int)
	runner := prove.New(
		prove.Options{
			Now:      time.Now,
			OnChange: func() {},
			ValueBefore: func(_ context.Context, _ prove.Target, _ checks.Definition) string {
				*measured++
				return "0.5"
			},
		},
	)
	return newAgent(Options{
		Checks: runner, Store: contentstore.New(discardClient{}, discardClient{}, "kyma-system"),
		Restorer: &objects.Restorer{Client: discardClient{}, Uncached: discardClient{}, Signer: trusttest.NewSigner(t)},
	}), measured
}

func TestChecksRequireReadyModuleAtBundleVersion(t *testing.T) {
	a, _ := newProving(t)
	cel := fleet.Check{Name: "cel", CEL: &fleet.CELCheck{Expression: "true"}}
	stale := readyManifest("1.0.0")
	stale.Generation++
	for name, c := range map[string]struct {
		installed        []v1beta2.Manifest
		isThere, isReady bool
	}{
		"module is ready":                       {[]v1beta2.Manifest{readyManifest("1.0.0")}, true, true},
		"another version is installed":          {[]v1beta2.Manifest{readyManifest("0.9.0")}, false, false},
		"status belongs to an older generation": {[]v1beta2.Manifest{stale}, true, false},
		"module is not installed":               {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.checkTargets(t.Context(), bundleWith("1.0.0", cel, fleet.Check{Name: "smoke"}), c.installed)
			require.Len(t, got, 1)
			require.Equal(t, c.isThere, got[0].Installed)
			require.Equal(t, c.isReady, got[0].Ready)
			require.Contains(t, got[0].Definitions[1].Problem, "ships no check",
				"the module has no content with checks")
			if c.installed != nil {
				require.Equal(t, []string{"apps", "keda"}, got[0].Namespaces)
			}
		})
	}
	require.Empty(t, a.checkTargets(t.Context(), bundleWith("1.0.0"), nil))
}

func TestCheckTargetsAreComputedAgainOnlyAfterAChange(t *testing.T) {
	type round struct {
		b    *bundle.Bundle
		live v1beta2.Manifest
	}
	cel := fleet.Check{Name: "cel", CEL: &fleet.CELCheck{Expression: "true"}}
	for name, c := range map[string]struct {
		change  func(*round)
		ready   bool
		changed bool
	}{
		"unchanged status, Manifest and desired state": {func(*round) {}, true, false},
		"changed status": {func(r *round) {
			r.live.ResourceVersion, r.live.Status.State = "6", v1beta2.StateError
		}, false, true},
		"changed Manifest": {func(r *round) { r.live.UID, r.live.Spec.Version = "b", "0.9.0" }, false, true},
		"changed desired state": {func(r *round) {
			r.b.Config.Digest, r.b.State.Manifests[0].Version = "z", "2.0.0"
		}, false, true},
		"state without a digest":  {func(r *round) { r.b.Config.Digest = "" }, true, true},
		"module is not installed": {func(r *round) { r.live.Name = "other" }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newProving(t)
			r := round{bundleWith("1.0.0", cel), readyManifest("1.0.0")}
			r.b.Config.Digest, r.live.UID, r.live.ResourceVersion = "y", "a", "5"
			before := a.checkTargets(t.Context(), r.b, []v1beta2.Manifest{r.live})
			require.True(t, before[0].Ready)
			c.change(&r)
			after := a.checkTargets(t.Context(), r.b, []v1beta2.Manifest{r.live})
			require.Equal(t, c.ready, after[0].Ready)
			require.Equal(t, c.changed, &before[0].Definitions[0] != &after[0].Definitions[0])
		})
	}
}

func TestPreUpgradeValuesAreMeasuredOnlyForUpgrades(t *testing.T) {
	query := fleet.Check{Name: "query", PromQL: &fleet.PromQLCheck{Query: "up", Max: "1"}}
	begun := readyManifest("1.0.0")
	require.NoError(t, record.Store{}.Set(&begun, record.Record{
		Applied: &record.AppliedVersion{Version: "0.9.0", InProgress: "sha256:of-1.0.0"},
	}))
	for name, c := range map[string]struct {
		installed []v1beta2.Manifest
		unstaged  map[string]error
		want      int
		upgrade   []bool // Upgrade in each record
	}{
		"upgrade to a newer version": {[]v1beta2.Manifest{readyManifest("0.9.0")}, nil, 1, []bool{true}},
		"first installation":         {nil, nil, 0, []bool{false}},
		"unchanged version":          {[]v1beta2.Manifest{readyManifest("1.0.0")}, nil, 0, nil},
		"upgrade that has begun":     {[]v1beta2.Manifest{begun}, nil, 0, nil},
		"upgrade with missing content": {
			[]v1beta2.Manifest{readyManifest("0.9.0")}, map[string]error{"keda": contentstore.ErrMissing}, 0, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, measured := newProving(t)
			for range 2 {
				a.measureBeforeUpgrade(t.Context(), logr.Discard(), bundleWith("1.0.0", query), c.installed,
					maintenance.Gate{}, c.unstaged)
			}
			require.Equal(t, c.want, *measured)
			records, _ := a.Checks.UnsavedRecords()
			require.Len(t, records, len(c.upgrade))
			for i, record := range records {
				require.Equal(t, c.upgrade[i], record.Upgrade)
			}
		})
	}
}

func TestOnlyChangedCheckResultsCauseAReport(t *testing.T) {
	with := func(result v1beta2.CheckResult, passes int32, value string) bundle.Report {
		return bundle.Report{Modules: []bundle.ReportedModule{{Name: "keda", Checks: []bundle.ReportedCheck{{
			CheckOutcome: v1beta2.CheckOutcome{Name: "a", Result: result, Value: value}, Passes: passes,
		}}}}}
	}
	first := with(v1beta2.CheckPassed, 3, "0.1")
	require.Equal(t, withoutCheckValues(first), withoutCheckValues(with(v1beta2.CheckPassed, 4, "0.2")))
	require.NotEqual(t, withoutCheckValues(first), withoutCheckValues(with(v1beta2.CheckFailed, 3, "0.1")))
	require.EqualValues(t, 3, first.Modules[0].Checks[0].Passes, "lasting must not change the report")
}
