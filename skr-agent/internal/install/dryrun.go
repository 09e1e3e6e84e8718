package install

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// dryRunner dry-runs an upgrade, and removes the obstacles that it finds: broken webhooks, and objects with immutable
// fields.
type dryRunner struct {
	planner *planner
	applier *applier
	deleter *deleter
	ledger  *ledger
	events  events.EventRecorder
}

// dryRunResult is the result of a dry run.
type dryRunResult struct {
	// recreate contains the objects that the agent must delete and create again. problem is nil if the dry run
	// succeeded.
	recreate []v1beta2.Resource
	problem  *outcome.Finding
	// isDeniedByModule is true if only the module's own webhooks and policies denied objects. Webhooks, policies and
	// quotas of others cannot be corrected by the new version.
	isDeniedByModule bool
	// immutable contains the objects that the API server rejects only because of immutable fields.
	immutable object.Keys
}

// dryRunWithFix dry-runs a version. If the module's own webhooks or policies reject the version, dryRunWithFix applies
// the version's webhooks and policies, and repeats the dry run.
func (dr *dryRunner) dryRunWithFix(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan,
) (dryRunResult, error) {
	tried, err := dr.dryRun(ctx, m, known, p)
	if err != nil || !tried.isDeniedByModule || record.ReadUnverified(m).Applied == nil {
		return tried, err
	}
	if relaxed, err := dr.applyInterceptorsFirst(ctx, m, known, p); err != nil || !relaxed {
		return tried, err
	}
	return dr.dryRun(ctx, m, known, p)
}

// dryRun dry-runs an upgrade's objects, so that an upgrade that the API server rejects does not change anything.
func (dr *dryRunner) dryRun(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan,
) (dryRunResult, error) {
	condition := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	failed := condition != nil && slices.Contains([]string{v1beta2.ReasonApplyFailed, v1beta2.ReasonImmutable},
		condition.Reason)
	if planning.IsLastApplied(m) || record.ReadUnverified(m).Applied == nil && !failed {
		return dryRunResult{}, nil
	}
	refused, err := dr.refusals(ctx, m, known, p)
	if err != nil {
		return dryRunResult{}, err
	}
	tried := dryRunResult{immutable: object.Keys{}}
	if tried.isDeniedByModule, err = dr.isDeniedByModule(ctx, m, refused); err != nil {
		return dryRunResult{}, err
	}
	for n := range refused {
		r := &refused[n]
		if r.Immutable {
			tried.immutable[guard.KeyOf(r.Object)] = struct{}{}
			live, err := dr.planner.accounts.Of(m).Metadata(ctx, object.ResourceOf(r.Object))
			if err != nil {
				return dryRunResult{}, err
			}
			r.Stays = planning.MayNotDelete(m, dr.planner.owner(m), live, guard.KeyOf(r.Object))
		}
	}
	tried.recreate, tried.problem = planning.JudgeRefusals(m, refused)
	return tried, nil
}

// refusals dry-runs a plan's objects and returns the objects that the API server rejects. It ignores temporary errors,
// and objects that depend on other objects in the plan. It marks the objects that the dry run does not change, so that
// the agent does not apply them.
func (dr *dryRunner) refusals(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan,
) ([]planning.Refusal, error) {
	a, defined := dr.planner.accounts.Of(m), planning.DefinedGroups(p)
	var refused []planning.Refusal
	for _, o := range p.Labeled() {
		switch _, err := a.Apply(ctx, o, dr.applier.sharedOwner(m), client.DryRunAll); {
		case err == nil, account.IsTransient(err):
		case account.IsTemporary(err), ctx.Err() != nil:
			return nil, err
		default:
			refused = append(refused, planning.Refusal{Object: o, Err: account.ObjectError{Key: guard.KeyOf(o), Err: err}})
		}
	}
	for _, o := range slices.Concat(p.Stages[:]...) {
		gk := o.GroupVersionKind().GroupKind()
		if defined[gk.Group] {
			continue
		}
		if dr.applier.isSettled(known, o) {
			continue
		}
		tried, err := a.Apply(ctx, o, client.DryRunAll)
		if apierrors.IsInvalid(err) {
			// The applier keeps the live values of some fields. The API server may accept the object with these values.
			kept, liveErr := dr.applier.keepLive(ctx, a, known, []*unstructured.Unstructured{o}, p)
			if liveErr != nil {
				return nil, liveErr
			}
			if kept[0] != o {
				if _, err = a.Apply(ctx, kept[0], client.DryRunAll); err == nil {
					continue
				}
			}
		}
		switch {
		case err == nil:
			dr.applier.settleUnchanged(known, o, tried)
			continue
		case apierrors.IsNotFound(err), account.IsTransient(err),
			apierrors.IsForbidden(err) && (gk.Group == "rbac.authorization.k8s.io" || gk == object.PodKind):
			continue
		case account.IsTemporary(err), ctx.Err() != nil:
			return nil, err
		}
		immutable, probeErr := a.IsImmutable(ctx, o, err)
		if probeErr != nil {
			return nil, probeErr
		}
		refused = append(refused, planning.Refusal{
			Object: o, Err: account.ObjectError{Key: guard.KeyOf(o), Err: err}, Immutable: immutable,
		})
	}
	return refused, nil
}

// In this package, interceptors are webhooks, admission policies and aggregated APIs: objects that handle requests for
// other objects. A broken interceptor can block the module version that corrects or removes it, so the installer
// applies interceptors first.

// isDeniedByModule reports whether webhooks or policies in the module's inventory caused all denials in refused, and
// there is at least one denial.
func (dr *dryRunner) isDeniedByModule(
	ctx context.Context, m *v1beta2.Manifest, refused []planning.Refusal,
) (bool, error) {
	denials := slices.DeleteFunc(slices.Clone(refused), func(r planning.Refusal) bool {
		return !agentobjects.IsDenied(r.Err)
	})
	if len(denials) == 0 {
		return false, nil
	}
	names, hasConditions := map[string]bool{}, false
	for _, r := range m.Status.Synced {
		if r.Group != guard.AdmissionGroup {
			continue
		}
		names[r.Name] = true
		live, err := dr.planner.accounts.Of(m).Get(ctx, r)
		if err != nil {
			return false, err
		}
		if live == nil {
			continue
		}
		webhooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
		for _, w := range webhooks {
			webhook, _ := w.(map[string]any)
			name, _, _ := unstructured.NestedString(webhook, "name")
			conditions, _, _ := unstructured.NestedSlice(webhook, "matchConditions")
			names[name], hasConditions = true, hasConditions || len(conditions) > 0
		}
	}
	return !slices.ContainsFunc(denials, func(r planning.Refusal) bool {
		denier := agentobjects.DenierOf(r.Err)
		isOwn := denier.Name != "" && names[denier.Name] || denier.IsMatchCondition && hasConditions
		return !isOwn
	}), nil
}

// pruneInterceptors deletes the interceptors that are not in the new version, before the version is applied. It ignores
// missing permissions, because upgrader.prune reports them later.
func (dr *dryRunner) pruneInterceptors(ctx context.Context, m *v1beta2.Manifest, p planning.Plan) error {
	dropped := slices.DeleteFunc(slices.Clone(p.Prune), func(r v1beta2.Resource) bool {
		return !object.Intercepts(object.KeyOf(r).GroupKind())
	})
	found, err := dr.planner.handOver(ctx, m, dropped)
	if err != nil || len(found.deletable) == 0 {
		return err
	}
	_, err = dr.deleter.deleteObjects(ctx, m, found.deletable, object.KeysOf(found.deletable), dr.planner.mayDelete(m))
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// applyInterceptorsFirst deletes or corrects webhooks, policies and APIServices after a failed dry run. It returns
// true if another dry run can succeed.
func (dr *dryRunner) applyInterceptorsFirst(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan,
) (bool, error) {
	isInterceptor := func(r v1beta2.Resource) bool { return object.Intercepts(object.KeyOf(r).GroupKind()) }
	inForce := slices.ContainsFunc(m.Status.Synced, isInterceptor)
	if !inForce {
		return false, nil
	}
	if err := dr.ledger.begin(ctx, m, known); err != nil {
		return false, err
	}
	if err := dr.pruneInterceptors(ctx, m, p); err != nil {
		return false, err
	}
	return true, applyInterceptors(ctx, dr.planner.accounts.Of(m), p)
}

// recreate deletes the objects to recreate. It returns a reason to wait while they still exist.
func (dr *dryRunner) recreate(ctx context.Context, m *v1beta2.Manifest, p planning.Plan) (string, error) {
	if len(p.Recreate) == 0 {
		return "", nil
	}
	var names []string
	var uids []types.UID
	for _, r := range p.Recreate {
		o, err := dr.planner.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return "", err
		}
		if o != nil && o.DeletionTimestamp.IsZero() {
			names, uids = append(names, object.KeyOf(r).String()), append(uids, o.UID)
		}
	}
	if len(names) > 0 {
		text := excerpt.FirstFew(names)
		log.FromContext(ctx).Info("recreating objects whose fields cannot be changed", "module", m.Module(), "version",
			m.Spec.Version, "objects", text)
		dr.events.Eventf(m, nil, "Normal", v1beta2.ReasonRecreating, "Recreate", "recreating %s for version %s", text,
			m.Spec.Version)
	}
	if err := dr.ledger.recordRecreation(ctx, m, uids); err != nil {
		return "", err
	}
	left, err := dr.deleter.deleteObjects(ctx, m, p.Recreate, object.KeysOf(p.Recreate), dr.planner.owner(m).Owns)
	if err != nil || len(left.objects) == 0 {
		return "", err
	}
	return "waiting for deletion before recreating: " + excerpt.FirstFew(left.texts), nil
}
