package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// Planner runs the controllers that must run only once in a fleet with shards, such as the controller for rollouts. It
// does not publish bundles.
type Planner struct {
	Catalog *Catalog
	// Shards is the number of shards of the fleet.
	Shards int
	// Selected is true if a label selector is configured, so that some Kymas of the control plane belong to no shard.
	Selected bool
	// PollInterval is the interval at which the shards read a runtime's report.
	PollInterval time.Duration
	// AgentPollInterval and ReportInterval are the intervals that the agents are configured with, or 0 for the
	// defaults.
	AgentPollInterval, ReportInterval time.Duration
	// Announce sends an announcement to the shards: which control plane objects the planner has processed, and whether a
	// rollout is active. It sets those fields of the announcement that identify this process.
	Announce func(ctx context.Context, a shard.Announcement) error
	// Git is the repository that the planner follows, or nil.
	Git *PlannedGit
	// ReportTimes returns the data that a shard last sent about the report times of its runtimes, or nil.
	ReportTimes func(ctx context.Context, shard int) ([]byte, error)
	// MayWrite returns an error if this process no longer holds the planner's Lease.
	MayWrite func() error
	Now      func() time.Time
	// TrustAuthors makes the planner apply all settings of Kymas. If it is false, the planner applies restricted settings
	// only if an admission policy in the API server checks the permissions of their authors.
	TrustAuthors bool

	rollouts    Rollouts
	trains      Trains
	watchers    Watchers
	active      atomic.Bool
	announcing  announcing
	reportTimes atomic.Pointer[[]*shard.ReportTimes]
}

// SetupPlanner adds the planner's controllers to the manager.
func SetupPlanner(mgr ctrl.Manager, p *Planner) error {
	p.reportTimes.Store(new(make([]*shard.ReportTimes, p.Shards)))
	if err := indexRuntimes(mgr); err != nil {
		return err
	}
	p.Catalog.fleet = fleetstate.New(nil) // required, but unused because the planner does not publish
	events := mgr.GetEventRecorder("kcp-publisher")
	if err := setUpCatalog(mgr, p.Catalog, make(chan event.GenericEvent)); err != nil {
		return err
	}
	r := &p.rollouts
	r.Events, r.Catalog, r.Now, r.lastReport, r.announce = events, p.Catalog, p.Now, p.lastReport, p.announceState
	r.maxQuiet = maxQuietTime(p.AgentPollInterval, p.ReportInterval, p.PollInterval)
	api := mgr.GetClient()
	if !p.TrustAuthors {
		api = restrictSettings(api, events, p.Now)
	}
	if err := setUpRollouts(mgr, r, api, p.PollInterval); err != nil {
		return err
	}
	p.trains.catalog, p.trains.mayWrite, p.trains.now, p.trains.isPartial = p.Catalog, p.MayWrite, p.Now, p.Selected
	if err := setUpTrains(mgr, &p.trains, api, p.PollInterval); err != nil {
		return err
	}
	if err := setUpWatchers(mgr, &p.watchers, p.Catalog.Namespace, p.Now); err != nil {
		return err
	}
	if err := setUpFinalizers(mgr, events); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("shards").For(&v1beta2.Kyma{}).
		Complete(&shardLabels{mgr.GetClient(), p.Shards})
	if err != nil {
		return fmt.Errorf("set up controller shards: %w", err)
	}
	return mgr.Add(p)
}

func (p *Planner) lastReport(kyma *v1beta2.Kyma) silence.LastReport {
	return lastReportOf(kyma, (*p.reportTimes.Load())[shard.ShardOf(plan.ClaimedRuntimeID(kyma), p.Shards)], p.Now())
}

// Start runs until the context ends. While a rollout is active, it regularly reads the report times of all shards.
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

// readReportTimes reads the report times of all shards. If it cannot read a shard's report times, it keeps the shard's
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
			ctrl.LoggerFrom(ctx).Error(err, "failed to read the times of a shard's reports", "shard", n)
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
	case p.Catalog.changed <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
	default: // an evaluation is already pending
	}
}

// shardLabels sets the shard label of each Kyma, so that each shard caches only its own Kymas.
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

// mustLabelOwnerFirst reports whether another Kyma owns the runtime and must get the shard label before this Kyma. If
// this Kyma got the label first, the shard would see only this Kyma and treat it as the owner.
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
