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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/course"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout/changes"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// Rollouts creates and advances Rollout objects. Its method View returns the catalog and the rollout decisions for new
// bundles. All state is in the Rollout objects, so a new leader makes the same decisions.
type Rollouts struct {
	Client  client.Client
	Events  events.EventRecorder
	Catalog *Catalog
	// Interval is the interval at which an active Rollout is evaluated. Regular evaluations are necessary, because the
	// end of a soak time or a deadline does not trigger an event.
	Interval time.Duration
	Now      func() time.Time

	lastReport func(*v1beta2.Kyma) silence.LastReport
	// share is this process's part of the Kymas. With a remote planner, Rollouts only reads the Rollout objects.
	share  shard.Share
	remote *RemotePlanner
	// announce sends the result of an evaluation to the shards: State, Active and Refused of the announcement. It is nil
	// if this process is not the planner.
	announce func(ctx context.Context, evaluated *catalog.Snapshot, result shard.Announcement) error
	view     atomic.Pointer[plan.View]
	// maxQuiet is the result of maxQuietTime: the longest time between two reports from a healthy runtime.
	maxQuiet time.Duration
	// members and checkedPolicies are only used by Reconcile. checkedPolicies contains the generation of each policy
	// that warnOfflineAfter has checked.
	members         plan.MemberCache
	checkedPolicies map[types.UID]int64
}

const (
	rolloutInterval = 10 * time.Second
	// The evaluation starts reportDelay after a new report, so that it covers several reports.
	reportDelay = 500 * time.Millisecond
)

// View returns the catalog and the rollout decisions for new bundles. It returns nil before the first evaluation. In a
// shard, it also returns nil until the planner has processed the same control plane objects.
func (r *Rollouts) View() *plan.View {
	view := r.view.Load()
	if view == nil || !r.remote.isPlanned(view.State) {
		return nil
	}
	return view
}

// Reconcile evaluates all Rollouts.
func (r *Rollouts) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	next := &plan.View{Catalog: r.Catalog.Snapshot()}
	if next.Catalog == nil {
		return ctrl.Result{}, nil // called again after the catalog was first read
	}
	if waits, result, err := r.mustWait(ctx); waits {
		return result, err
	}
	inNamespace := client.InNamespace(r.Catalog.Namespace)
	var policies fleet.RolloutPolicyList
	var rollouts fleet.RolloutList
	if err := errors.Join(r.Client.List(ctx, &policies, inNamespace),
		r.Client.List(ctx, &rollouts, inNamespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list RolloutPolicies and Rollouts: %w", err)
	}
	if r.Catalog.isChanging() || r.Catalog.Snapshot() != next.Catalog {
		// The catalog changed while the policies and Rollouts were read.
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	}
	r.warnOfflineAfter(ctx, policies.Items)
	next.Policies = policies.Items
	if r.remote != nil {
		next.State = shard.HashState(next.Catalog.Revision, policies.Items, rollouts.Items)
	}
	if !r.remote.isPlanned(next.State) {
		// The planner has not processed these objects yet, or this shard's cache does not contain the objects that the
		// planner wrote.
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	}
	var all []plan.Member
	var round rollout.Round
	// mayLackReports is true if another publisher process may have received a newer report from a runtime than this
	// process has.
	var mayLackReports bool
	if len(policies.Items)+len(rollouts.Items) > 0 {
		var kymas v1beta2.KymaList
		// Do not copy the Kymas, because they are only read and copying many Kymas is expensive.
		if err := r.Client.List(ctx, &kymas, inNamespace, client.UnsafeDisableDeepCopy); err != nil {
			return ctrl.Result{}, fmt.Errorf("list Kymas: %w", err)
		}
		quietAfter := longestOffline(policies.Items, rollouts.Items)
		all = r.members.Members(r.remote.ownKymas(r.share, kymas.Items), next.Catalog)
		for i := range all {
			all[i].LastReport = r.lastReport(all[i].Kyma)
			mayLackReports = mayLackReports || all[i].LastReport.MayArrive(quietAfter, r.Now())
		}
		tracks := plan.Tracks(all, rollout.RestFilter(policies.Items, rollouts.Items, r.Now()))
		if r.remote != nil {
			round = rollout.Round{
				Gates:    rollout.RecordedGates(policies.Items, rollouts.Items, tracks, r.Now()),
				IsActive: r.remote.isActive(),
			}
			round.Gates.HoldRefused(r.remote.refusedRollouts())
		} else {
			round = rollout.EvaluateAll(policies.Items, rollouts.Items, tracks, r.Now())
		}
	}
	if err := r.writeRollouts(ctx, &round, rollouts.Items); apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if r.remote == nil {
		setRolloutMetrics(round.Newest)
	}
	next.Gates, next.AwaitedRuntimes = round.Gates, round.Gates.AwaitedRuntimes()
	if err := r.activateView(ctx, next, all, rollouts.Items, round); err != nil {
		return ctrl.Result{}, err
	}
	if round.IsActive || mayLackReports {
		return ctrl.Result{RequeueAfter: r.Interval}, nil
	}
	return ctrl.Result{}, nil
}

// mustWait reports whether the evaluation must wait, because a Git commit may be applied or cached only partially.
func (r *Rollouts) mustWait(ctx context.Context) (bool, ctrl.Result, error) {
	isCurrent, err := r.remote.catchUp(ctx)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	return !isCurrent || r.Catalog.isChanging(), ctrl.Result{RequeueAfter: catalogDelay}, nil
}

// activateView puts the result of an evaluation into effect. In the planner, it announces the processed objects to the
// shards. In all other processes, it stores the view for later bundles.
func (r *Rollouts) activateView(
	ctx context.Context, next *plan.View, all []plan.Member, rollouts []fleet.Rollout, round rollout.Round,
) error {
	if r.announce != nil {
		state := shard.HashState(next.Catalog.Revision, next.Policies, rolloutsAfter(round, rollouts))
		return r.announce(ctx, next.Catalog, shard.Announcement{
			State: state, Active: round.IsActive, Refused: round.Refused,
		})
	}
	before := r.view.Load()
	if next.HasSameResult(before) {
		// Keep the pointer. A new pointer would cause a complete reconcile of every Kyma.
		next = before
	}
	r.view.Store(next)
	if err := r.queueChanged(ctx, before, next, all); err != nil {
		r.view.Store(before) // keep the previous view, so that the next evaluation queues the Kymas again
		return err
	}
	return nil
}

func rolloutsAfter(round rollout.Round, before []fleet.Rollout) []fleet.Rollout {
	gone := map[string]bool{}
	for _, old := range round.Delete {
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

// longestOffline returns the longest offlineAfter of all policies and Rollouts. If a runtime has not reported for this
// time, no Rollout waits for it.
func longestOffline(policies []fleet.RolloutPolicy, rollouts []fleet.Rollout) (longest time.Duration) {
	for i := range policies {
		longest = max(longest, policies[i].Spec.OfflineAfter.Duration)
	}
	for i := range rollouts {
		longest = max(longest, rollouts[i].Spec.OfflineAfter.Duration)
	}
	return longest
}

// writeRollouts writes an evaluation's Rollouts to the API server. The writes must succeed before activateView makes
// the evaluation effective.
func (r *Rollouts) writeRollouts(ctx context.Context, round *rollout.Round, before []fleet.Rollout) error {
	for _, made := range slices.Clone(round.Create) {
		status := made.Status
		made.Namespace = r.Catalog.Namespace
		if why := invalidMessage(made); why != "" {
			r.holdRefused(round, made, why)
			continue
		}
		err := r.Client.Create(ctx, made)
		if why := refusalMessage(made, before, err); why != "" {
			r.holdRefused(round, made, why)
			continue
		}
		if err != nil {
			return fmt.Errorf("create Rollout %s/%s: %w", made.Namespace, made.Name, err)
		}
		ctrl.LoggerFrom(ctx).
			Info("rollout started", "rollout", made.Name, "module", made.Spec.Module, "channel", made.Spec.Channel,
				"from", made.Spec.From, "to", made.Spec.To)
		r.emitChanges(made, changes.Start(made))
		if err := r.writeStatus(ctx, made, status); err != nil {
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
		if err := r.writeStatus(ctx, changed, status); err != nil {
			return err
		}
	}
	for _, old := range round.Delete {
		if err := r.Client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Rollout %s/%s: %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}

// invalidMessage returns the reason why the new Rollout's policy is invalid, or "". The webhook rejects an invalid
// policy, but the webhook is optional, and an older publisher may have accepted the policy.
func invalidMessage(created *fleet.Rollout) string {
	err := course.Validate(created.Spec.Course)
	if err == nil {
		return ""
	}
	return fmt.Sprintf("rollout %s cannot be created: policy %s is invalid: %s: %s", created.Name, created.Spec.Policy,
		err.Field, err.Detail)
}

// refusalMessage explains why a Rollout cannot be created until a user acts. It returns "" for an error that a retry
// may resolve.
func refusalMessage(created *fleet.Rollout, before []fleet.Rollout, err error) string {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Sprintf("rollout %s cannot be created: %v", created.Name, err)
	case apierrors.IsAlreadyExists(err):
		return nameConflictMessage(created, before)
	}
	return ""
}

// nameConflictMessage returns the reason why an existing Rollout with the same name prevents creating a Rollout. It
// returns "" if the cache does not contain the existing Rollout yet.
func nameConflictMessage(created *fleet.Rollout, before []fleet.Rollout) string {
	at := slices.IndexFunc(before, func(old fleet.Rollout) bool { return old.Name == created.Name })
	if at < 0 {
		return ""
	}
	switch old := &before[at]; {
	case !old.DeletionTimestamp.IsZero():
		return fmt.Sprintf("rollout %s cannot be created: a deleted Rollout with this name still exists: remove its "+
			"finalizers", created.Name)
	case rollout.TrackOf(old) != rollout.TrackOf(created):
		return fmt.Sprintf("rollout %s cannot be created: the Rollout with this name is for module %s in channel %s: "+
			"delete it", created.Name, bundle.Quote(old.Spec.Module, maxQuotedName),
			bundle.Quote(old.Spec.Channel, maxQuotedName))
	}
	return ""
}

// maxQuotedName limits names in messages.
const maxQuotedName = 80

// holdRefused must be called if a Rollout cannot be created. It makes the runtimes keep their versions and emits an
// Event about the RolloutPolicy.
func (r *Rollouts) holdRefused(round *rollout.Round, refused *fleet.Rollout, reason string) {
	round.HoldRefused(refused, bundle.Bounded(reason, bundle.MaxMessageBytes))
	policy := &corev1.ObjectReference{
		APIVersion: fleet.GroupVersion.String(), Kind: "RolloutPolicy", Namespace: refused.Namespace,
		Name: refused.Spec.Policy,
	}
	r.Events.Eventf(policy, nil, corev1.EventTypeWarning, fleet.ReasonRolloutRefused, "Rollout", "%s", eventNote(reason))
}

// writeStatus writes a Rollout's status. It returns a conflict if the Rollout has changed since it was read.
func (r *Rollouts) writeStatus(ctx context.Context, object *fleet.Rollout, status fleet.RolloutStatus) error {
	before := object.DeepCopy()
	object.Status = status
	if err := r.Client.Status().
		Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write status of Rollout %s/%s: %w", object.Namespace, object.Name, err)
	}
	r.emitChanges(object, changes.Between(before.Status, status))
	return nil
}

func (r *Rollouts) emitChanges(object *fleet.Rollout, all []changes.Change) {
	for _, c := range all {
		r.Events.Eventf(object, nil, c.Type, c.Reason, "Rollout", "%s", eventNote(c.Note))
	}
}

// queueChanged queues every Kyma whose rollout decisions differ between the views before and now.
func (r *Rollouts) queueChanged(ctx context.Context, before, now *plan.View, all []plan.Member) error {
	// During a long change to the catalog, some Kymas were requeued only for their next poll. Queue all Kymas now, so
	// that they do not wait for that poll.
	if slow := r.Catalog.isSlowChange.Swap(false); slow || before == nil ||
		before.Catalog.Revision != now.Catalog.Revision {
		err := r.Catalog.reconcileAll(ctx)
		if err != nil && slow {
			r.Catalog.isSlowChange.Store(true)
		}
		return err
	}
	if len(before.Gates) > 0 && len(all) == 0 {
		return r.Catalog.reconcileAll(ctx) // a user deleted the last policy
	}
	differs := now.DifferenceFilter(before)
	for i := range all {
		if differs(all[i]) {
			if err := r.Catalog.queueKyma(ctx, all[i].Kyma); err != nil {
				return err
			}
		}
	}
	return nil
}
