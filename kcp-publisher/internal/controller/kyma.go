// Package controller runs the controllers of the control plane. They publish each runtime's bundle and update each
// Kyma's status. They read objects, call the packages in internal/core, which perform no I/O, and write the results.
package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
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

	fleet       *fleetstate.Fleet
	backoff     registryBackoff
	metricsPart metricsPart
	reports     *reportReader
	// checkReport returns an error if the API server would reject a Kyma status with the report's data.
	checkReport func(bundle.Report) error
}

const (
	// publishDelay is the delay between a reconcile that had to write the Kyma's status first and the next reconcile,
	// which publishes the bundle.
	publishDelay = 50 * time.Millisecond
	// statusDelay is the delay between the push of a bundle and the update of the Kyma's status. During this time, the
	// publisher pushes bundles for other runtimes, which is more urgent.
	statusDelay = 300 * time.Millisecond
)

// Reconcile publishes the bundle for a Kyma, and updates the Kyma's status from its runtime's report. After a conflict,
// or if the decisions have changed, it requeues the Kyma and does not return an error.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := k.reconcile(ctx, req)
	if apierrors.IsConflict(err) || errors.Is(err, publish.ErrOutdatedDecision) {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusDelay, k.PollInterval))}, nil
	}
	return result, err
}

// reconcile executes the actions that the function reconcile.Decide returns, until the action is End.
func (k *Kymas) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma, err := k.readKyma(ctx, req)
	if kyma == nil || err != nil {
		return ctrl.Result{}, err
	}
	p := k.beginPass(ctx, kyma)
	for {
		state, action := reconcile.Decide(p.facts)
		if action == reconcile.End {
			return k.endPass(ctx, p, state)
		}
		if err := k.execute(ctx, p, action); err != nil {
			k.finishPending(p, false)
			return ctrl.Result{}, err
		}
	}
}

// readKyma returns the Kyma from the cache. The caller must not modify it. It returns nil if this process must not
// reconcile the Kyma, for example because another shard is responsible for it.
func (k *Kymas) readKyma(ctx context.Context, req ctrl.Request) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, req.NamespacedName, kyma, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		k.dropState(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !k.Share.Contains(kyma.Labels, plan.ClaimedRuntimeID(kyma)) {
		k.dropState(req.NamespacedName)
		return nil, nil
	}
	if plan.IsSkipped(kyma) {
		k.fleet.DropPending(req.NamespacedName)
		k.updateCounts(kyma)
		return nil, nil
	}
	return kyma, nil
}

func (k *Kymas) dropState(kyma types.NamespacedName) {
	if runtimeStates.dropRuntime(&k.metricsPart, kyma).Backoff != nil {
		registryFailing.Add(-1)
	}
}

// resolveInput returns the rules and the catalog for the Kyma's next bundle. The View is nil if no bundle can be
// published now, because the catalog is unknown or changing.
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

// While a Git commit is being applied, publishing stops. If this takes longer than holdReasonDelay, the publisher
// writes the reason to the Kymas' statuses.
const holdReasonDelay = 30 * time.Second

// holdReason returns the reason why publishing has stopped while a Git commit is being applied. changing is the time
// since it stopped. If this is shorter than holdReasonDelay, holdReason returns "".
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
