package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// PlannerOptions configures a Planner.
type PlannerOptions struct {
	Namespace string
	// Restricted lists the modules that require a kymaSelector to be visible.
	Restricted []string
	// Shards is the number of shards in the fleet.
	Shards int
	// Selector selects the Kymas of all shards. Nil selects all Kymas.
	Selector labels.Selector
	// PollInterval is the interval at which the shards read a runtime's report.
	PollInterval time.Duration
	// AgentPollInterval and ReportInterval are the intervals in the agents' settings, or 0 for the defaults.
	AgentPollInterval, ReportInterval time.Duration
	// Announce sends an announcement to the shards. The announcement identifies the control plane objects that the
	// planner has processed, and reports whether a rollout is active. Announce sets the fields that identify this
	// process.
	Announce func(ctx context.Context, a shard.Announcement) error
	// Follow starts to follow the Git repository and returns the connection to it. hold and stop are the Planner's methods
	// Hold and Stop. Follow is nil if no Git repository is configured.
	Follow func(hold func() (release func()), stop func(context.Context) error) (*PlannedGit, error)
	// ReportTimes returns the data that a shard last sent about its runtimes' report times, or nil.
	ReportTimes func(ctx context.Context, shard int) ([]byte, error)
	// MayWrite returns an error if this process no longer holds the planner's Lease.
	MayWrite func() error
	Now      func() time.Time
	// TrustAuthors makes the planner apply all settings on Kymas. If it is false, the planner applies restricted
	// settings only if an admission policy in the API server checks the authors' permissions.
	TrustAuthors bool
}

// Planner runs the controllers that must run only once in a fleet with shards, such as the controller for rollouts. It
// does not publish bundles.
type Planner struct {
	PlannerOptions
	catalog *Catalog
	// git is the repository that the planner follows, or nil.
	git         *PlannedGit
	active      atomic.Bool
	announcing  lastAnnouncement
	reportTimes atomic.Pointer[[]*shard.ReportTimes]
}

// NewPlanner returns a Planner and adds its controllers to the manager.
func NewPlanner(mgr ctrl.Manager, o PlannerOptions) (*Planner, error) {
	if err := indexRuntimes(mgr); err != nil {
		return nil, err
	}
	recorder, all := mgr.GetEventRecorder(eventSource), shard.Share{Selector: o.Selector, Count: o.Shards}
	p := &Planner{PlannerOptions: o, catalog: &Catalog{
		Changes: NewChanges(), Reader: mgr.GetClient(), Namespace: o.Namespace, Restricted: o.Restricted,
		Reconciles: make(chan event.GenericEvent), changed: make(chan event.GenericEvent, 1),
		fleet: fleetstate.New(), // required, but not used, because the planner does not publish
	}}
	p.reportTimes.Store(new(make([]*shard.ReportTimes, o.Shards)))
	if o.Follow != nil {
		git, err := o.Follow(p.Hold, p.Stop)
		if err != nil {
			return nil, err
		}
		p.git = git
	}
	api := mgr.GetClient()
	if !o.TrustAuthors {
		api = restrictSettings(api, recorder, o.Now)
	}
	err := errors.Join(
		setUpCatalog(mgr, p.catalog),
		setUpRollouts(mgr, &Rollouts{
			Client: api, Events: recorder, Catalog: p.catalog, Interval: min(o.PollInterval, rolloutInterval), Now: o.Now,
			lastReport: p.lastReport, announce: p.announceState,
			maxQuiet: maxQuietTime(o.AgentPollInterval, o.ReportInterval, o.PollInterval),
		}),
		setUpTrains(mgr, &Trains{
			client: api, uncached: mgr.GetAPIReader(), events: recorder, catalog: p.catalog, mayWrite: o.MayWrite,
			now: o.Now, isPartial: all.HasSelector(), interval: min(6*o.PollInterval, trainInterval),
			isReporting: func(kyma *v1beta2.Kyma) bool { return plan.ShowsReporting(kyma, o.Now()) },
		}),
		setUpWatchers(mgr, &Watchers{Client: mgr.GetClient(), Namespace: o.Namespace, now: o.Now}),
		setUpFinalizers(mgr, recorder),
		setUpUnreconciled(mgr, o.Namespace, all, o.PollInterval, o.Now),
	)
	if err != nil {
		return nil, err
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("shards").For(&v1beta2.Kyma{}).
		Complete(&shardLabels{mgr.GetClient(), o.Shards})
	if err != nil {
		return nil, fmt.Errorf("set up controller shards: %w", err)
	}
	return p, mgr.Add(p)
}

func (p *Planner) lastReport(kyma *v1beta2.Kyma) silence.LastReport {
	return lastReportOf(kyma, (*p.reportTimes.Load())[shard.ShardOf(plan.ClaimedRuntimeID(kyma), p.Shards)], p.Now())
}

// Start runs until the context ends. While a rollout is active, it regularly reads all shards' report times.
func (p *Planner) Start(ctx context.Context) error {
	tick := time.NewTicker(shardReadInterval)
	defer tick.Stop()
	for {
		if p.active.Load() {
			p.readReportTimes(ctx)
		}
		p.announceAgain(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readReportTimes reads all shards' report times. If it cannot read a shard's report times, it keeps the shard's
// previous ones.
func (p *Planner) readReportTimes(ctx context.Context) {
	before, isNew := *p.reportTimes.Load(), false
	next := make([]*shard.ReportTimes, p.Shards)
	for n := range next {
		next[n] = before[n]
		data, err := p.ReportTimes(ctx, n)
		if err != nil || data == nil {
			continue
		}
		times, err := shard.DecodeReportTimes(data)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to read a shard's report times", "shard", n)
			continue
		}
		if before[n] == nil || !before[n].At.Equal(times.At) {
			next[n], isNew = &times, true
		}
	}
	if !isNew {
		return
	}
	p.reportTimes.Store(&next)
	select {
	case p.catalog.changed <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
	default: // an evaluation is already pending
	}
}

// shardLabels sets the shard label on each Kyma, so that each shard caches only its own Kymas.
type shardLabels struct {
	client client.Client
	shards int
}

func (s *shardLabels) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma := &v1beta2.Kyma{}
	if err := s.client.Get(ctx, req.NamespacedName, kyma); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	want := shard.LabelValue(shard.ShardOf(plan.ClaimedRuntimeID(kyma), s.shards), s.shards)
	if kyma.Labels[v1beta2.LabelShard] == want {
		return ctrl.Result{}, nil
	}
	if first, err := s.mustLabelOwnerFirst(ctx, kyma, want); err != nil || first {
		return ctrl.Result{RequeueAfter: catalogDelay}, err
	}
	before := kyma.DeepCopy()
	if kyma.Labels == nil {
		kyma.Labels = map[string]string{}
	}
	kyma.Labels[v1beta2.LabelShard] = want
	if err := s.client.Patch(ctx, kyma, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("label Kyma %s with its shard: %w", req.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

// mustLabelOwnerFirst reports whether another Kyma owns the runtime and must get the shard label before this Kyma.
// Otherwise, the shard could cache only this Kyma and treat it as the owner.
func (s *shardLabels) mustLabelOwnerFirst(ctx context.Context, kyma *v1beta2.Kyma, label string) (bool, error) {
	var same v1beta2.KymaList
	if err := s.client.List(ctx, &same, client.InNamespace(kyma.Namespace),
		client.MatchingFields{indexRuntime: plan.ClaimedRuntimeID(kyma)}); err != nil {
		return false, fmt.Errorf("list Kymas of runtime %s: %w", plan.ClaimedRuntimeID(kyma), err)
	}
	owner := plan.NewOwners(same.Items)[plan.ClaimedRuntimeID(kyma)]
	if owner == nil {
		owner = plan.Oldest(same.Items)
	}
	return owner != nil && owner.Name != kyma.Name && owner.Labels[v1beta2.LabelShard] != label, nil
}
