// Package controller runs the control plane's controllers. They publish each runtime's bundle and update each Kyma's
// status. They read objects, call the packages in internal/core, which perform no I/O, and write the results.
package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Kymas reconciles Kymas: it publishes each runtime's bundle and updates each Kyma's status.
type Kymas struct {
	Options
	Client    client.Client
	Events    events.EventRecorder
	Publisher *publish.Publisher
	Catalog   *Catalog
	Place     store.Store
	Keys      *Keys
	Watchers  *Watchers
	Rollouts  *Rollouts
	// Planner is the connection to the planner, or nil if this publisher plans rollouts itself.
	Planner     *RemotePlanner
	Now         func() time.Time
	secrets     client.Reader // reads Secrets in SecretsNamespace, or nil
	pullSecrets client.Reader // reads the Secret ImagePullSecret, or nil
	uncached    client.Reader // uncached, for objects that are read rarely
	// loggedSecrets contains the Secrets without a Kyma that were already logged, by namespace and name.
	loggedSecrets sync.Map

	fleet   *fleetstate.Fleet
	backoff registryBackoff
	counts  *metricsPart
	reports *reportReader
	// checkReport returns an error if the API server would reject a Kyma status with the report's data.
	checkReport func(bundle.Report) error
}

// resolveInput returns the rules, the catalog and the rollout decisions for the Kyma's next bundle. The View is nil
// if no bundle can be published now, because the catalog is unknown or changing.
func (k *Kymas) resolveInput(ctx context.Context, kyma *v1beta2.Kyma) (plan.Rules, *plan.View) {
	// Read the Git commit before the view. Otherwise, a bundle could name a newer commit than the one from which its
	// modules were resolved.
	rules, view := k.currentRules(), k.currentView()
	if view != nil && !k.stillCurrent(ctx, kyma, rules.Source) {
		view = nil // the Kyma or the commit changed between the reads
	}
	if view == nil {
		view = k.lastBundleView(kyma)
		// A bundle that is built during a change does not correspond to a single Git commit.
		rules.Source, rules.IsChanging = nil, true
	}
	return rules, view
}

// stillCurrent reports whether the cached Kyma and the Git commit are the same as when they were read. If one of them
// has changed, the Kyma could be older than the catalog.
func (k *Kymas) stillCurrent(ctx context.Context, kyma *v1beta2.Kyma, source *bundle.Source) bool {
	if k.Git == nil {
		return true
	}
	now := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(kyma), now, client.UnsafeDisableDeepCopy)
	return err == nil && now.ResourceVersion == kyma.ResourceVersion && k.Git.Source() == source
}

// currentView returns the catalog and the rollout decisions for new bundles. It returns nil while they are unknown or
// changing.
func (k *Kymas) currentView() *plan.View {
	view := k.Rollouts.View()
	_, known := k.Watchers.Snapshot()
	if view == nil || !known || k.Catalog.isChanging() || view.Catalog != k.Catalog.Snapshot() {
		return nil
	}
	return view
}

// lastBundleView returns the catalog for a deleted Kyma's last bundle if the catalog has been changing for a long time.
// The last bundle does not contain modules, so it does not depend on the change. For any other Kyma, lastBundleView
// returns nil.
func (k *Kymas) lastBundleView(kyma *v1beta2.Kyma) *plan.View {
	if kyma.DeletionTimestamp.IsZero() ||
		max(k.Catalog.changingFor(), k.Planner.heldFor()) < reconcile.HoldTimeout {
		return nil
	}
	if view := k.Rollouts.view.Load(); view != nil {
		return view
	}
	none, err := catalog.New(nil, nil) // this process started during the change and has not read the catalog yet
	if err != nil {
		return nil
	}
	return &plan.View{Catalog: none}
}

// While a Git commit is being applied, publishing stops. If this takes longer than holdReasonDelay, the publisher
// writes the reason to the Kymas' statuses.
const holdReasonDelay = 30 * time.Second

// holdReason returns the reason why publishing has stopped while a Git commit is being applied. changing is the time
// since publishing stopped. If this time is shorter than holdReasonDelay, holdReason returns "".
func (k *Kymas) holdReason(changing time.Duration) string {
	switch {
	case changing < holdReasonDelay:
		return ""
	case k.Planner != nil: // the planner can hold publishing even if this shard has no repository
		return k.Planner.HoldReason()
	case k.Git != nil:
		return k.Git.HoldReason()
	default:
		return ""
	}
}

func (k *Kymas) currentRules() plan.Rules {
	rules := k.Rules
	rules.Watchers, _ = k.Watchers.Snapshot()
	rules.Root = k.Publisher.Root()
	if k.Git != nil {
		rules.Source = k.Git.Source()
	}
	return rules
}
