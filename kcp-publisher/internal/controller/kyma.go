// Package controller runs the controllers of the control plane. They publish each runtime's bundle and update each
// Kyma's status. They read objects, call the pure packages, and write the results.
package controller

import (
	"context"
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Kymas reconciles Kymas: it publishes each runtime's bundle and updates each Kyma's status.
type Kymas struct {
	Client    client.Client
	Events    events.EventRecorder
	Publisher *publish.Publisher
	Catalog   *Catalog
	Place     store.Store
	Keys      *Keys
	// PollInterval is the interval for reading the report of a runtime that is not idle.
	PollInterval time.Duration
	// DeletionTimeout is the time that a deleted Kyma waits for its runtime to be empty.
	DeletionTimeout time.Duration
	// Rules are the rules that do not change while the publisher runs.
	Rules      plan.Rules
	Signatures SignatureKeys
	// Source returns the Git commit that is applied to the control plane, or nil. The function is nil without a Git
	// repository.
	Source   func() *bundle.Source
	Watchers Watchers
	Rollouts Rollouts
	Trains   Trains
	// Share is this publisher's part of the Kymas.
	Share shard.Share
	// Planner is the connection to the planner, or nil if this publisher plans rollouts itself.
	Planner *RemotePlanner
	// SecretsNamespace is the namespace of the Secrets for runtimes, or empty to read no Secrets.
	SecretsNamespace string
	secrets          client.Reader // reads SecretsNamespace, or nil
	// ImagePullSecret is the Secret with which all runtimes pull images, or empty.
	ImagePullSecret types.NamespacedName
	pullSecrets     client.Reader // reads ImagePullSecret, or nil
	direct          client.Reader // for objects that are read too rarely to be watched
	unaddressed     sync.Map      // logged Secrets without a Kyma, by namespace and name
	// Notify notifies a runtime's agent about a new bundle, or is nil. It returns immediately.
	Notify func(runtime string)
	Now    func() time.Time
	// TrustAuthors applies all settings of Kymas, even if the API server does not check the author's permission.
	TrustAuthors bool
	// KymaEvents selects the Events about runtimes. The default is all.
	KymaEvents KymaEvents

	// ApprovedByCommit returns when an operator approved a removal together with its Git commit, or zero. It is nil
	// without a Git repository.
	ApprovedByCommit func(kyma types.UID, module string) time.Time
	// Holding returns the reason why a Git commit stops publishing, or "". It is nil without a Git repository.
	Holding func() string
	// Limits bounds the module removals without an operator's approval.
	Limits removal.Limits
	// Compared returns the start of the last comparison that found the newest Git commit fully applied. Compare
	// requests a new comparison. Both are nil without a Git repository.
	Compared func() time.Time
	Compare  func()

	// Slimmer reduces the memory of cached Kymas and of reports.
	Slimmer *Slimmer

	fleet   *fleetstate.Fleet
	backoff registryBackoff
	counted part
	reports *reports
	// checkReport returns an error if the API server would refuse the content of a report.
	checkReport func(bundle.Report) error
}

// All parts of the controller share the records of the runtimes.
func (k *Kymas) remember(fleet *fleetstate.Fleet) {
	k.fleet, k.backoff.fleet, k.counted.fleet, k.Catalog.fleet = fleet, fleet, fleet, fleet
	k.reports = newReports(k.Place, k.Now, fleet, k.Slimmer)
	if k.Planner != nil {
		k.Planner.fleet = fleet
	}
}

const (
	// recordedSoon is the delay before the next pass if a pass had to write the status before it could publish.
	recordedSoon = 50 * time.Millisecond
	// Pushing other runtimes' bundles takes precedence over writing statuses.
	statusSettles = 300 * time.Millisecond
)

// Reconcile publishes the bundle for a Kyma, and updates the Kyma's status from its runtime's report. It retries after
// a conflict without an error.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := k.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusSettles, k.PollInterval))}, nil
	}
	return result, err
}

// reconcile runs the actions that package reconcile selects until the pass ends.
func (k *Kymas) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma, err := k.read(ctx, req)
	if kyma == nil || err != nil {
		return ctrl.Result{}, err
	}
	p := k.begin(ctx, kyma)
	for {
		state, action := reconcile.Decide(p.facts)
		if action == reconcile.End {
			return k.end(ctx, p, state)
		}
		if err := k.take(ctx, p, action); err != nil {
			k.finishPending(p, false)
			return ctrl.Result{}, err
		}
	}
}

// read returns the cached Kyma, which must not be changed. It returns nil for a Kyma that this publisher must not
// reconcile.
func (k *Kymas) read(ctx context.Context, req ctrl.Request) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, req.NamespacedName, kyma, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		k.forget(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !k.Share.Contains(kyma.Labels, plan.Claimed(kyma)) {
		k.forget(req.NamespacedName)
		return nil, nil
	}
	if plan.Skipped(kyma) {
		k.dropPending(req.NamespacedName)
		k.count(kyma)
		return nil, nil
	}
	return kyma, nil
}

func (k *Kymas) forget(kyma types.NamespacedName) {
	if runtimeStates.drop(&k.counted, kyma).Backoff != nil {
		registryFailing.Add(-1)
	}
}

// The view is nil while the Kyma cannot be resolved.
func (k *Kymas) resolvedBy(kyma *v1beta2.Kyma) (plan.Rules, *plan.View) {
	// Read the Git commit first. Otherwise, a bundle could name a commit that is only partially applied.
	rules, view := k.rules(), k.view()
	if view == nil {
		view = k.lastView(kyma)
		rules.Source, rules.Changing = nil, true // a bundle that is built during a change belongs to no commit
	}
	return rules, view
}

// view returns the catalog and the gates for resolving Kymas, or nil while they are unknown or changing.
func (k *Kymas) view() *plan.View {
	view := k.Rollouts.View()
	_, known := k.Watchers.Snapshot()
	if view == nil || !known || k.Catalog.changing() || view.Catalog != k.Catalog.Snapshot() {
		return nil
	}
	return view
}

// heldShown is the minimum duration of a Git commit before the statuses of Kymas show it.
const heldShown = 30 * time.Second

// holding returns the reason if a Git commit has stopped publishing for at least heldShown, or "".
func (k *Kymas) holding(changing time.Duration) string {
	if k.Holding == nil || changing < heldShown {
		return ""
	}
	return k.Holding()
}

func (k *Kymas) rules() plan.Rules {
	rules := k.Rules
	rules.Watchers, _ = k.Watchers.Snapshot()
	rules.Root = k.Publisher.Root()
	if k.Source != nil {
		rules.Source = k.Source()
	}
	return rules
}
