package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// Rollouts creates and advances rollouts, and provides the catalog and gates for resolving Kymas. All of its state is
// in the Rollout objects, so a new leader makes the same decisions.
type Rollouts struct {
	Client  client.Client
	Events  events.EventRecorder
	Catalog *Catalog
	// Interval is the time between two evaluations of an active rollout. Soak times and deadlines cause no events.
	Interval time.Duration
	Now      func() time.Time

	lastReport func(*v1beta2.Kyma) silence.LastReport
	// share is this process's part of the Kymas. With a remote planner, Rollouts only reads the Rollout objects.
	share  shard.Share
	remote *RemotePlanner
	// announce sends the shards the processed state of the control plane, and whether a rollout is active. It is nil
	// without shards.
	announce func(ctx context.Context, state string, active bool) error
	view     atomic.Pointer[plan.View]
	// quiet is the longest time between reports of a healthy runtime.
	quiet time.Duration
	// Only Reconcile uses members and checked. checked contains the generations of the policies that warnOfflineAfter
	// has checked.
	members plan.MemberCache
	checked map[types.UID]int64
}

const (
	rolloutInterval = 10 * time.Second
	// reportsSettle is the time to collect reports before an evaluation.
	reportsSettle = 500 * time.Millisecond
)

// View returns the catalog and gates for resolving Kymas, or nil before the first evaluation. In a shard, it returns
// nil until the planner has processed the same state.
func (r *Rollouts) View() *plan.View {
	view := r.view.Load()
	if view == nil || !r.remote.planned(view.State) {
		return nil
	}
	return view
}

// Reconcile evaluates the rollouts of all modules and channels.
func (r *Rollouts) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	next := &plan.View{Catalog: r.Catalog.Snapshot()}
	if next.Catalog == nil {
		return ctrl.Result{}, nil // the first read of the catalog calls Reconcile again
	}
	if r.Catalog.changing() {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil // a Git commit with policies can be partially applied
	}
	inNamespace := client.InNamespace(r.Catalog.Namespace)
	var policies fleet.RolloutPolicyList
	var rollouts fleet.RolloutList
	if err := errors.Join(r.Client.List(ctx, &policies, inNamespace),
		r.Client.List(ctx, &rollouts, inNamespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list RolloutPolicies and Rollouts: %w", err)
	}
	if r.Catalog.changing() || r.Catalog.Snapshot() != next.Catalog {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil // the catalog changed during the read
	}
	r.warnOfflineAfter(ctx, policies.Items)
	if r.remote != nil {
		next.State = shard.State(next.Catalog.Revision, policies.Items, rollouts.Items)
	}
	if !r.remote.planned(next.State) {
		// The planner has not processed this state, or this shard's cache does not contain the planner's writes yet.
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
	}
	var all []plan.Member
	var round rollout.Round
	var unsure bool // true if the last report of a runtime is not known for certain
	if len(policies.Items)+len(rollouts.Items) > 0 {
		var kymas v1beta2.KymaList
		// The Kymas are only read, and copying many Kymas is expensive.
		if err := r.Client.List(ctx, &kymas, inNamespace, client.UnsafeDisableDeepCopy); err != nil {
			return ctrl.Result{}, fmt.Errorf("list Kymas: %w", err)
		}
		quietAfter := longestOffline(policies.Items, rollouts.Items)
		all = r.members.Members(r.remote.own(r.share, kymas.Items), next.Catalog)
		for i := range all {
			all[i].LastReport = r.lastReport(all[i].Kyma)
			unsure = unsure || r.Now().Sub(all[i].LastReport.Possible) <= quietAfter
		}
		tracks := plan.Tracks(all, rollout.AtRest(policies.Items, rollouts.Items))
		if r.remote != nil {
			round = rollout.Round{
				Gates:  rollout.Written(policies.Items, rollouts.Items, tracks, r.Now()),
				Active: r.remote.active(),
			}
		} else {
			round = rollout.NextRound(policies.Items, rollouts.Items, tracks, r.Now())
		}
	}
	if err := r.write(ctx, &round, rollouts.Items); apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if r.remote == nil {
		setRolloutMetrics(round.Newest)
	}
	next.Gates, next.Awaited = round.Gates, round.Gates.Awaited()
	if err := r.activate(ctx, next, all, policies.Items, after(round, rollouts.Items), round.Active); err != nil {
		return ctrl.Result{}, err
	}
	if round.Active || unsure {
		return ctrl.Result{RequeueAfter: r.Interval}, nil
	}
	return ctrl.Result{}, nil
}

// activate stores the view for resolving Kymas, or announces the state to the shards in the planner.
func (r *Rollouts) activate(
	ctx context.Context, next *plan.View, all []plan.Member, policies []fleet.RolloutPolicy, rollouts []fleet.Rollout,
	active bool,
) error {
	if r.announce != nil {
		return r.announce(ctx, shard.State(next.Catalog.Revision, policies, rollouts), active)
	}
	before := r.view.Load()
	if next.Same(before) {
		next = before // a new pointer causes a full pass of every Kyma
	}
	r.view.Store(next)
	if err := r.mark(ctx, before, next, all); err != nil {
		r.view.Store(before) // the next evaluation then marks the Kymas again
		return err
	}
	return nil
}

func after(round rollout.Round, before []fleet.Rollout) []fleet.Rollout {
	gone := map[string]bool{}
	for _, old := range round.Forget {
		gone[old.Name] = true
	}
	var all []fleet.Rollout
	for i := range before {
		if !gone[before[i].Name] {
			all = append(all, before[i])
		}
	}
	for _, made := range round.Create {
		all = append(all, *made)
	}
	return all
}

// After the longest offlineAfter, no rollout awaits a runtime's report.
func longestOffline(policies []fleet.RolloutPolicy, rollouts []fleet.Rollout) (longest time.Duration) {
	for i := range policies {
		longest = max(longest, policies[i].Spec.OfflineAfter.Duration)
	}
	for i := range rollouts {
		longest = max(longest, rollouts[i].Spec.OfflineAfter.Duration)
	}
	return longest
}

// write writes the results of an evaluation to the API server, before activate makes them effective.
func (r *Rollouts) write(ctx context.Context, round *rollout.Round, before []fleet.Rollout) error {
	for _, made := range slices.Clone(round.Create) {
		status := made.Status
		made.Namespace = r.Catalog.Namespace
		err := r.Client.Create(ctx, made)
		if why := refusedRollout(made, before, err); why != "" {
			r.hold(round, made, why)
			continue
		}
		if err != nil {
			return fmt.Errorf("create Rollout %s/%s: %w", made.Namespace, made.Name, err)
		}
		ctrl.LoggerFrom(ctx).
			Info("rollout started", "rollout", made.Name, "module", made.Spec.Module, "channel", made.Spec.Channel,
				"from", made.Spec.From, "to", made.Spec.To)
		r.note(made, rollout.StartedChange(made))
		if err := r.status(ctx, made, status); err != nil {
			return err
		}
	}
	for _, changed := range round.Update {
		status := changed.Status
		for i := range before {
			if before[i].Name == changed.Name {
				changed.Status = before[i].Status
			}
		}
		if err := r.status(ctx, changed, status); err != nil {
			return err
		}
	}
	for _, old := range round.Forget {
		if err := r.Client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Rollout %s/%s: %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}

// refusedRollout returns the reason why a rollout cannot be created until a user changes something, or "".
func refusedRollout(made *fleet.Rollout, before []fleet.Rollout, err error) string {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Sprintf("rollout %s cannot be created: %v", made.Name, err)
	case apierrors.IsAlreadyExists(err) && slices.ContainsFunc(before, func(old fleet.Rollout) bool {
		return old.Name == made.Name && !old.DeletionTimestamp.IsZero()
	}):
		return fmt.Sprintf("rollout %s cannot be created: a deleted Rollout with this name still exists, remove its "+
			"finalizers", made.Name)
	}
	return ""
}

// hold keeps the installed versions of the runtimes whose rollout cannot be created, and emits an Event on the policy.
func (r *Rollouts) hold(round *rollout.Round, refused *fleet.Rollout, why string) {
	round.Hold(refused, bundle.Bounded(why, bundle.MaxMessageBytes))
	policy := &corev1.ObjectReference{
		APIVersion: fleet.GroupVersion.String(), Kind: "RolloutPolicy", Namespace: refused.Namespace,
		Name: refused.Spec.Policy,
	}
	r.Events.Eventf(policy, nil, corev1.EventTypeWarning, fleet.ReasonRolloutRefused, "Rollout", "%s", eventNote(why))
}

// status returns a conflict if the rollout has changed since it was read.
func (r *Rollouts) status(ctx context.Context, object *fleet.Rollout, status fleet.RolloutStatus) error {
	before := object.DeepCopy()
	object.Status = status
	if err := r.Client.Status().
		Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write status of Rollout %s/%s: %w", object.Namespace, object.Name, err)
	}
	r.note(object, rollout.Changes(before.Status, status))
	return nil
}

func (r *Rollouts) note(object *fleet.Rollout, changes []rollout.Change) {
	for _, c := range changes {
		r.Events.Eventf(object, nil, c.Type, c.Reason, "Rollout", "%s", eventNote(c.Note))
	}
}

// mark requests a reconciliation of every Kyma that the two views decide differently.
func (r *Rollouts) mark(ctx context.Context, before, now *plan.View, all []plan.Member) error {
	// After a slow change, Kymas are requeued for their next poll and would otherwise wait for this poll.
	if slow := r.Catalog.slowChange.Swap(false); slow || before == nil ||
		before.Catalog.Revision != now.Catalog.Revision {
		err := r.Catalog.markAll(ctx)
		if err != nil && slow {
			r.Catalog.slowChange.Store(true)
		}
		return err
	}
	if len(before.Gates) > 0 && len(all) == 0 {
		return r.Catalog.markAll(ctx) // the last policy was deleted
	}
	differs := now.Differs(before)
	for i := range all {
		if differs(all[i]) {
			if err := r.Catalog.publish(ctx, all[i].Kyma); err != nil {
				return err
			}
		}
	}
	return nil
}
