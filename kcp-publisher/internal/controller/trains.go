package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

// Trains evaluates PromotionPolicies, promotes versions, and writes the policies' statuses. All of its state is in
// these statuses.
type Trains struct {
	// client is a settingsClient, unless the authors of Kymas are trusted. A settingsClient removes restricted
	// settings from the Kymas, because unauthorized users could have set them.
	client client.Client
	// uncached reads from the API server, because the cache might not contain the last promotion yet.
	uncached client.Reader
	events   events.EventRecorder
	catalog  *Catalog
	// mayWrite returns an error if this process no longer holds its Lease.
	mayWrite func() error
	now      func() time.Time
	// isPartial is true if this publisher does not reconcile all Kymas in the namespace. In this case, it does not
	// promote versions, because it does not know the state of all runtimes.
	isPartial bool
	// interval is the interval at which all policies are evaluated. Regular evaluations are necessary, because
	// runtimes' reports do not trigger events.
	interval time.Duration
	members  plan.MemberCache
	// isReporting reports whether a Kyma's runtime is not silent.
	isReporting func(*v1beta2.Kyma) bool
}

const (
	trainInterval = time.Minute
	trainDelay    = 2 * time.Second
)

const trainFieldManager = "kcp-publisher-train"

// setUpTrains adds the controller for PromotionPolicies.
func setUpTrains(mgr ctrl.Manager, t *Trains) error {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	annotated := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{}))
	labeled := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	err := ctrl.NewControllerManagedBy(mgr).Named("trains").
		Watches(&fleet.PromotionPolicy{}, batchEvents(), changed).
		Watches(&fleet.Rollout{}, batchEventsFor(trainDelay),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&fleet.RolloutPolicy{}, batchEvents(), changed).
		Watches(&v1beta2.ModuleTemplate{}, batchEvents(), labeled).
		Watches(&v1beta2.ModuleReleaseMeta{}, batchEvents(), annotated).
		Complete(t)
	if err != nil {
		return fmt.Errorf("set up controller trains: %w", err)
	}
	return nil
}

// isReporting reports whether a Kyma's runtime is not silent. The runtime may have stopped while no publisher ran.
// Therefore, if the last recorded report is too old, isReporting returns false until this process has read the
// runtime's report.
func (k *Kymas) isReporting(kyma *v1beta2.Kyma) bool {
	timeout, _, _ := k.Rules.SilenceTimeoutFor(kyma) // ignore the error: the Kyma's status already contains it
	return plan.HasCurrentReport(kyma.Status.Conditions) &&
		k.reports.lastReport(kyma).State(timeout, k.Now()) == silence.Reporting
}

// Reconcile evaluates all PromotionPolicies.
func (t *Trains) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var policies fleet.PromotionPolicyList
	inNamespace := client.InNamespace(t.catalog.Namespace)
	err := t.client.List(ctx, &policies, inNamespace)
	if err == nil && len(policies.Items) > 0 {
		err = t.uncached.List(ctx, &policies, inNamespace)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("list PromotionPolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		setTrainMetrics(nil)
		return ctrl.Result{}, nil
	}
	if t.catalog.Snapshot() == nil || t.catalog.isChanging() {
		// The catalog is not known yet or is being changed.
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	}
	in, err := t.readInput(ctx, policies.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	if t.catalog.isChanging() {
		// The catalog changed while the objects were read.
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	}
	outcomes := train.Plan(in)
	metas := map[string]*v1beta2.ModuleReleaseMeta{}
	for i := range in.Metas {
		metas[in.Metas[i].Name] = &in.Metas[i]
	}
	after, conflict := t.interval, false
	// A policy whose status cannot be written must not stop the other policies.
	var failed []error
	for i := range outcomes {
		one := &outcomes[i]
		for _, due := range one.Due {
			conflict = t.performPromotion(ctx, one, due, metas[due.Meta]) || conflict
		}
		if wait := one.Next.Sub(in.Now); !one.Next.IsZero() && wait < after {
			after = max(wait, catalogDelay)
		}
		if err := t.writeStatus(ctx, one); apierrors.IsConflict(err) {
			conflict = true
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	setTrainMetrics(outcomes)
	if err := errors.Join(failed...); err != nil {
		return ctrl.Result{}, err
	}
	if conflict {
		after = catalogDelay
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

func (t *Trains) readInput(ctx context.Context, policies []fleet.PromotionPolicy) (train.Input, error) {
	in := train.Input{Policies: policies, Now: t.now()}
	inNamespace := client.InNamespace(t.catalog.Namespace)
	var metas v1beta2.ModuleReleaseMetaList
	var rollouts fleet.RolloutList
	var templates v1beta2.ModuleTemplateList
	var waves fleet.RolloutPolicyList
	var kymas v1beta2.KymaList
	snapshot := t.catalog.Snapshot()
	if err := errors.Join(t.uncached.List(ctx, &metas, inNamespace), t.uncached.List(ctx, &rollouts, inNamespace),
		t.client.List(ctx, &templates, inNamespace, client.UnsafeDisableDeepCopy),
		t.client.List(ctx, &waves, inNamespace),
		t.client.List(ctx, &kymas, inNamespace, client.UnsafeDisableDeepCopy)); err != nil {
		return in, fmt.Errorf("read the inputs of PromotionPolicies: %w", err)
	}
	in.Metas, in.Rollouts, in.Templates, in.RolloutPolicies = metas.Items, rollouts.Items, templates.Items, waves.Items
	if !t.isPartial {
		in.Fleet = train.Count(t.members.Members(kymas.Items, snapshot), t.isReporting)
	}
	return in, nil
}

// performPromotion promotes one version to the next channel. If the policy's promoteBy is Command, it only emits an
// Event about the possible promotion. outdated is true if the ModuleReleaseMeta has changed since it was read.
func (t *Trains) performPromotion(
	ctx context.Context, outcome *train.Outcome, due train.Promotion, meta *v1beta2.ModuleReleaseMeta,
) (outdated bool) {
	if due.ByCommand {
		t.announceDue(outcome, due)
		return false
	}
	err := t.promoteVersion(ctx, due, meta)
	if apierrors.IsConflict(err) {
		return true
	}
	if err != nil {
		if len(outcome.Policy.Status.Conditions) == 0 ||
			outcome.Policy.Status.Conditions[0].Reason != fleet.PolicyPromotionFailed {
			t.events.Eventf(outcome.Policy, meta, corev1.EventTypeWarning, fleet.PolicyPromotionFailed, "Promote", "%s",
				eventNote(fmt.Sprintf("module %s, version %s, channel %s: %v", due.Module, due.Version, due.To, err)))
		}
		outcome.Fail(due, err, t.now())
		return false
	}
	outcome.Record(due, t.now())
	text := eventNote(fmt.Sprintf("policy %s promoted module %s from %s to %s in channel %s, following channel %s",
		due.Policy, due.Module, due.PreviousVersion, due.Version, due.To, due.From))
	ctrl.LoggerFrom(ctx).Info("promoted a version", "policy", due.Policy, "module", due.Module, "channel", due.To,
		"from", due.PreviousVersion, "to", due.Version)
	t.events.Eventf(outcome.Policy, meta, corev1.EventTypeNormal, fleet.PolicyVersionPromoted, "Promote", "%s", text)
	t.events.Eventf(meta, outcome.Policy, corev1.EventTypeNormal, fleet.PolicyVersionPromoted, "Promote", "%s", text)
	return false
}

func (t *Trains) promoteVersion(ctx context.Context, due train.Promotion, meta *v1beta2.ModuleReleaseMeta) error {
	if t.mayWrite != nil {
		if err := t.mayWrite(); err != nil {
			return err
		}
	}
	before := meta.DeepCopy()
	for i := range meta.Spec.Channels {
		if c := &meta.Spec.Channels[i]; c.Channel == due.To && c.Version == due.PreviousVersion {
			c.Version = due.Version
		}
	}
	err := t.client.Patch(ctx, meta, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(trainFieldManager))
	if apierrors.IsForbidden(err) {
		const advice = "give the publisher the permissions in rbac/promotions.yaml (chart value rbac.promotions), " +
			"or set spec.promoteBy to Command"
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

func (t *Trains) announceDue(one *train.Outcome, due train.Promotion) {
	for _, m := range one.Policy.Status.Modules {
		for _, v := range m.Versions {
			if m.Name == due.Module && v.Channel == due.From && v.Version == due.Version &&
				v.Reason == fleet.WaitDue {
				return
			}
		}
	}
	t.events.Eventf(one.Policy, nil, corev1.EventTypeNormal, fleet.PolicyPromotionDue, "Promote", "%s",
		eventNote(fmt.Sprintf("module %s can be promoted from %s to %s in channel %s: run `kcp-publisher train promote %s`",
			due.Module, due.PreviousVersion, due.Version, due.To, due.Policy)))
}

func (t *Trains) writeStatus(ctx context.Context, one *train.Outcome) error {
	if equality.Semantic.DeepEqual(one.Policy.Status, one.Status) {
		return nil
	}
	if t.mayWrite != nil {
		if err := t.mayWrite(); err != nil {
			return err
		}
	}
	next := one.Policy.DeepCopy()
	next.Status = one.Status
	blocked := train.NewlyBlocked(one.Policy, next)
	if err := t.client.Status().
		Patch(ctx, next, client.MergeFromWithOptions(one.Policy, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write status of PromotionPolicy %s/%s: %w", next.Namespace, next.Name, err)
	}
	for _, at := range blocked {
		t.events.Eventf(next, nil, corev1.EventTypeWarning, fleet.PolicyPromotionBlocked, "Promote", "%s",
			eventNote(fmt.Sprintf("module %s, version %s, channel %s: %s: %s", at.Module, at.Version, at.Channel, at.Reason,
				at.Message)))
	}
	return nil
}
