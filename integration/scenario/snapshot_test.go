package scenario

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// An operator adds a mandatory module and a beta label after the snapshot. The restored control plane knows neither of
// them, but the registry has newer bundles.
func TestRestoreKeepsModulesAssignedAfterSnapshot(t *testing.T) {
	suite.Long(t) // the short suite runs TestRestartedPublisherAdoptsPushedBundle
	for name, test := range map[string]struct {
		running bool // the publisher runs through the restore
		flags   []string
	}{
		"the publisher starts after the restore": {},
		"the publisher runs through the restore": {running: true},
		// Kubernetes recommends these flags, which prevent etcd's revisions from decreasing.
		"the restore increases the revisions": {
			running: true, flags: []string{"--bump-revision", "1000000000", "--mark-compacted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, fleet.Options{LeaderElect: true})
			g := snapshotFleet{T: t, f: f}
			g.install()
			g.restore(test.running, test.flags...)
			g.checkHeld()
			g.assignAgain()
		})
	}
}

// snapshotFleet is a fleet of one runtime. Module mailer is visible only to beta Kymas.
type snapshotFleet struct {
	*testing.T
	f        *fleet.Fleet
	r        *fleet.Runtime
	snapshot string
	before   map[string]types.UID // UIDs of the Manifests
}

func (g *snapshotFleet) assign() {
	g.Helper()
	ctx := g.Context()
	watchdog := sample.Version{
		Module: "watchdog", Version: "1.0.0", Manager: "watchdog",
		Manifest: strings.ReplaceAll(sample.Mailer("1.0.0").Manifest, "mailer", "watchdog"),
	}
	must(g.T, g.f.Offer(ctx, watchdog))
	release := sample.Release("watchdog", watchdog.Component())
	release.Spec.Mandatory = &v1beta2.Mandatory{Version: "1.0.0"}
	must(g.T, g.f.Control.Create(ctx, release))
	labelKyma(g.T, g.f, g.r, v1beta2.LabelBeta, v1beta2.True)
}

// install saves a snapshot, assigns both modules and waits until the runtime has them.
func (g *snapshotFleet) install() {
	g.Helper()
	ctx := g.Context()
	must(g.T, g.f.Control.Patch(ctx, sample.Mailer("1.0.0").Template(),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1beta2.LabelBeta+`":"true"}}}`))))
	var err error
	g.r, err = g.f.AddRuntime(ctx, "one", "regular", "scaler", "mailer")
	must(g.T, err)
	must(g.T, g.r.UntilState(ctx, "mailer", "", v1beta2.StateError))
	g.snapshot = filepath.Join(g.f.Dir, "snapshot.db")
	must(g.T, g.f.SaveControlPlane(ctx, g.snapshot))
	g.assign()
	g.before = map[string]types.UID{}
	until(g.T, time.Minute, "both modules are installed", func() (bool, string) {
		for _, module := range []string{"mailer", "watchdog"} {
			manifest := &v1beta2.Manifest{}
			if err := g.r.API.Get(ctx, inKyma(module), manifest); err != nil {
				return false, err.Error()
			}
			if manifest.Status.State != v1beta2.StateReady {
				return false, fmt.Sprint(module, manifest.Status)
			}
			g.before[module] = manifest.UID
		}
		return true, ""
	})
	untilQuiet(g.T, g.f)
}

func (g *snapshotFleet) restore(running bool, flags ...string) {
	g.Helper()
	if !running {
		must(g.T, g.f.Publisher().Stop())
	}
	must(g.T, g.f.RestoreControlPlaneSnapshot(g.Context(), g.snapshot, flags...))
	if !running {
		must(g.T, g.f.StartPublisher())
	}
}

// checkHeld waits until the publisher reports the modules that the restored control plane does not assign, and checks
// that the runtime keeps them.
func (g *snapshotFleet) checkHeld() {
	g.Helper()
	until(g.T, time.Minute, "the Kyma names the modules that the runtime keeps", func() (bool, string) {
		kyma, err := g.r.Record(g.Context())
		if err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionRemovals)
		return c != nil && c.Reason == v1beta2.ReasonRemovalsHeld && strings.Contains(c.Message, "mailer") &&
			strings.Contains(c.Message, "watchdog"), fmt.Sprintf("%+v", kyma.Status)
	})
	g.checkUnchanged()
}

func (g *snapshotFleet) checkUnchanged() {
	g.Helper()
	for module, uid := range g.before {
		manifest := &v1beta2.Manifest{}
		must(g.T, g.r.API.Get(g.Context(), inKyma(module), manifest))
		if manifest.UID != uid || !manifest.DeletionTimestamp.IsZero() {
			g.Errorf("%s was removed by the restore", module)
		}
	}
}

// assignAgain assigns both modules again, as an operator does after a restore, and waits until nothing is held.
func (g *snapshotFleet) assignAgain() {
	g.Helper()
	g.assign()
	until(g.T, time.Minute, "no removal is held", func() (bool, string) {
		kyma, err := g.r.Record(g.Context())
		return err == nil && meta.IsStatusConditionTrue(kyma.Status.Conditions, v1beta2.ConditionRemovals) &&
			kyma.Status.State == v1beta2.StateReady, fmt.Sprintf("%v %+v", err, kyma)
	})
	g.checkUnchanged()
}
