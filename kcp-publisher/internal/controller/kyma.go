// Package controller runs the control plane's side in a cluster: it watches Kymas, ModuleTemplates and
// ModuleReleaseMetas and keeps each runtime's bundle and each Kyma's status in line. Its controllers read, call the
// pure packages and write.
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Kymas keeps every runtime's bundle and every Kyma's status in line.
type Kymas struct {
	Client    client.Client
	Events    events.EventRecorder
	Publisher *publish.Publisher
	Catalog   *Catalog
	Place     store.Store
	Keys      *Keys
	// PollInterval is how often a runtime's report is asked for of which something is awaited.
	PollInterval time.Duration
	// DeletionTimeout is how long a deleted Kyma waits for its runtime to be empty.
	DeletionTimeout time.Duration
	// Rules are those that do not change while the publisher runs: settings, maintenance and the allowed silence.
	Rules      plan.Rules
	Signatures SignatureKeys
	// Source returns the commit that the control plane has, nil for none; it is nil itself where no repository is
	// followed.
	Source   func() *bundle.Source
	Watchers Watchers
	Rollouts Rollouts
	// Shard is which part of the fleet this is, nil for all of it.
	Shard *Shard
	// SecretsNamespace is where the Secrets are that are for runtimes; empty when none are to be read.
	SecretsNamespace string
	secrets          client.Reader // of that namespace, nil without
	// ImagePullSecret is the Secret that all runtimes get to pull their modules' images; empty for none.
	ImagePullSecret types.NamespacedName
	pullSecrets     client.Reader // of that Secret, nil without
	direct          client.Reader // of what is read too seldom to be watched
	unaddressed     sync.Map      // Secrets for runtimes that no Kyma has, as it was logged, by namespace and name
	// Notify tells the agents of a runtime that a bundle was pushed for it, nil for nobody. It returns at once.
	Notify func(runtime string)
	Now    func() time.Time
	// KymaEvents are which Events are made of what happens to runtimes; all unless it is set.
	KymaEvents KymaEvents

	// ApprovedByCommit reports whether the operator who allowed a Git commit allowed a removal with it; nil where no
	// repository is followed.
	ApprovedByCommit func(kyma, module string) bool
	// Holding returns which Git commit keeps bundles from being published, empty for none; it is nil where no repository is
	// followed.
	Holding func() string
	// Limits bound the modules that are removed from runtimes without an approval.
	Limits removal.Limits
	// Compared returns when a comparison with Git's newest commit began that found it applied, and Compare requests a
	// comparison; both are nil where no repository is followed.
	Compared func() time.Time
	Compare  func()

	// Slimmer is that of the Kymas' cache.
	Slimmer *Slimmer

	// fleet has a record of each runtime.
	fleet   *fleetstate.Fleet
	backoff registryBackoff
	counted part
	reports *reports
	// checkReport says what in a report the API server would refuse.
	checkReport func(bundle.Report) error
}

// remember makes a fleet the one that all parts record runtimes in.
func (k *Kymas) remember(fleet *fleetstate.Fleet) {
	k.fleet, k.backoff.fleet, k.counted.fleet, k.Catalog.fleet = fleet, fleet, fleet, fleet
	k.reports = newReports(k.Place, k.Now, fleet, k.Slimmer)
	if k.Shard != nil {
		k.Shard.fleet = fleet
	}
}

const (
	// recordedSoon is how long a Kyma waits that needs a bundle and whose status had to be written first.
	recordedSoon = 50 * time.Millisecond
	// statusSettles is how long at least the status of a Kyma is postponed after its bundle was pushed: other runtimes'
	// bundles go first.
	statusSettles = 300 * time.Millisecond
)

// Reconcile brings the registry in line with what one Kyma requests, and the Kyma with what its runtime reports. A
// conflict is not a failure: the cache may be behind this publisher's own write, and the Kyma is reconciled again soon.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := k.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusSettles, k.PollInterval))}, nil
	}
	return result, err
}

// reconcile takes the actions that package reconcile decides on until the pass ends. It is the only way through a pass.
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

// read returns the Kyma of the cache, which must not be changed, or nil if there is nothing to do.
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
	if !k.Shard.owns(kyma) {
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

// forget drops the record of a Kyma that is gone, or that belongs to another shard.
func (k *Kymas) forget(kyma types.NamespacedName) {
	if runtimeStates.drop(&k.counted, kyma).Backoff != nil {
		registryFailing.Add(-1)
	}
}

// resolvedBy returns the rules and the view that a Kyma is resolved by; the view is nil while it has to wait.
func (k *Kymas) resolvedBy(kyma *v1beta2.Kyma) (plan.Rules, *plan.View) {
	// The source is read before it is known that nothing changes: no bundle names a commit whose change began meanwhile.
	rules, view := k.rules(), k.view()
	if view == nil {
		view = k.lastView(kyma)
		rules.Source, rules.Changing = nil, true // a bundle that is made all the same is of no commit
	}
	return rules, view
}

// view returns what Kymas are resolved by, nil while that is not known or about to change.
func (k *Kymas) view() *plan.View {
	view := k.Rollouts.View()
	_, known := k.Watchers.Snapshot()
	if view == nil || !known || k.Catalog.changing() || view.Catalog != k.Catalog.Snapshot() {
		return nil
	}
	return view
}

// heldShown is how long a commit is held before Kymas say so: a commit that is applied at once writes no status.
const heldShown = 30 * time.Second

// holding returns why only renewals are published, empty for a change that has just begun.
func (k *Kymas) holding(changing time.Duration) string {
	if k.Holding == nil || changing < heldShown {
		return ""
	}
	return k.Holding()
}

// rules returns what holds for all runtimes now.
func (k *Kymas) rules() plan.Rules {
	rules := k.Rules
	rules.Watchers, _ = k.Watchers.Snapshot()
	rules.Root = k.Publisher.Root()
	if k.Source != nil {
		rules.Source = k.Source()
	}
	return rules
}
