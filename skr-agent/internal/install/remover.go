package install

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// remover removes a module, or makes it unmanaged.
type remover struct {
	planner  *planner
	upgrader *upgrader
	deleter  *deleter
	pacer    *pacer
	watches  *drift.Watches
	memos    *memos

	now          func() time.Time
	lookInterval time.Duration
}

// remove removes a module from the cluster, or makes it unmanaged. Each call continues after the steps that earlier
// calls completed.
func (rm *remover) remove(ctx context.Context, m *v1beta2.Manifest) (outcome.Outcome, error) {
	out := outcome.Outcome{Inventory: m.Status.Synced}
	if !controllerutil.ContainsFinalizer(m, v1beta2.FinalizerManifest) {
		return outcome.Outcome{Gone: true}, nil
	}
	if rm.planner.records.IsUnmanaged(m) {
		return outcome.Outcome{Gone: true}, rm.deleter.unmanage(ctx, m)
	}
	if !rm.planner.records.HasRemoval(m) {
		// Another client deleted the Manifest. Package objects removes the finalizer and creates the Manifest again.
		out.State = v1beta2.StateDeleting
		out.Ready = outcome.Finding{
			Reason:  v1beta2.ReasonRestoring,
			Message: "no bundle requests the removal of this module: it stays installed, and its Manifest is restored",
		}
		return out, nil
	}
	known := rm.memos.forManifest(m)
	all := m.Status.Synced
	defaultCR, hasDefaultCR := rm.planner.defaultCR(m)
	if hasDefaultCR {
		all = object.Union(all, []v1beta2.Resource{defaultCR})
	}
	found, err := rm.planner.handOver(ctx, m, all)
	if err != nil {
		return outcome.Outcome{}, err
	}
	if len(found.deletable) == 0 && found.waitReason != "" && rm.planner.isIncomplete() {
		return rm.handingOver(m, known, out, found), nil
	}
	mine := object.KeysOf(found.deletable)
	byUsers, err := rm.deleter.userObjects(ctx, m, found.deletable)
	if err != nil {
		return outcome.Outcome{}, err
	}
	if len(byUsers) > 0 {
		if err := rm.upgradeLeaving(ctx, m, known, &out); err != nil {
			return outcome.Outcome{}, err
		}
		out.State = v1beta2.StateWarning
		out.Ready = outcome.Finding{
			Reason: v1beta2.ReasonCustomResourcesExist,
			Message: "custom resources of this module still exist: delete them to remove the module: " +
				excerpt.FirstFew(byUsers),
		}
		out.Again = known.nextCheck(m.Generation, rm.now(), rm.lookInterval)
		return out, nil
	}
	if hasDefaultCR && mine.Has(object.KeyOf(defaultCR)) {
		left, err := rm.deleter.deleteObjects(ctx, m, []v1beta2.Resource{defaultCR}, mine,
			rm.planner.owner(m).OwnsDefaultCR)
		if err != nil {
			return outcome.Outcome{}, err
		}
		if len(left.objects) > 0 {
			err := rm.unblock(ctx, m, known, &out, left)
			return rm.pacer.inRemoval(m, known, out, left.texts), err
		}
	}
	isDone, out, err := rm.removeObjects(ctx, m, known, out, mine)
	if err != nil || !isDone {
		return out, err
	}
	if found.waitReason != "" {
		return rm.handingOver(m, known, out, found), nil
	}
	return outcome.Outcome{Gone: true}, nil
}

// removeObjects deletes the objects in mine in stages. isDone is true if none of them exists anymore.
func (rm *remover) removeObjects(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out outcome.Outcome, mine object.Keys,
) (isDone bool, _ outcome.Outcome, err error) {
	stages := planning.RemovalStages(object.Among(out.Inventory, mine))
	for n, stage := range stages {
		gone := object.KeysOf(stage)
		if stage, err = rm.deleter.keepNamespaces(ctx, m, stage); err != nil {
			return false, outcome.Outcome{}, err
		}
		left, err := rm.deleter.deleteObjects(ctx, m, stage, mine, rm.planner.mayDelete(m))
		if err != nil {
			return false, outcome.Outcome{}, err
		}
		for k := range object.KeysOf(left.objects) {
			delete(gone, k)
		}
		out.Inventory = object.Without(out.Inventory, gone)
		if len(left.objects) > 0 {
			err := rm.correctLeaving(ctx, m, known, slices.Concat(stages[n+1:]...))
			return false, rm.pacer.inRemoval(m, known, out, left.texts), err
		}
	}
	return true, out, nil
}

// handingOver returns the outcome for a removal that waits until other modules take over objects.
func (rm *remover) handingOver(m *v1beta2.Manifest, known *memo, out outcome.Outcome, found handover) outcome.Outcome {
	out = rm.pacer.inRemoval(m, known, out, nil)
	out.Ready.Message = found.waitReason
	out.Again = min(found.recheckAfter, max(out.Again, handOverInterval))
	return out
}

// unblock handles a removal that waits until the default CR is deleted. If the API server cannot call a webhook for
// the deletion or for an update of the CR, unblock deletes the module's webhooks and policies. If the cause is not a
// webhook, unblock upgrades the module and corrects drift, because its operator may have to remove finalizers.
func (rm *remover) unblock(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome.Outcome, left remainingObjects,
) error {
	known.webhooksDeleted = known.webhooksDeleted || left.isUnresponsive
	for _, r := range left.objects {
		// The deletion itself may have succeeded, but the operator must also be able to remove its finalizers.
		known.webhooksDeleted = known.webhooksDeleted || rm.planner.accounts.Of(m).HasUnresponsiveWebhook(ctx, r)
	}
	if !known.webhooksDeleted {
		return rm.upgradeLeaving(ctx, m, known, out)
	}
	hooks := slices.DeleteFunc(slices.Clone(out.Inventory), func(r v1beta2.Resource) bool {
		return r.Group != guard.AdmissionGroup
	})
	remaining, err := rm.deleter.deleteObjects(ctx, m, hooks, object.KeysOf(hooks), rm.planner.mayDelete(m))
	if err != nil {
		return err
	}
	out.Inventory = object.Without(out.Inventory, object.KeysOf(object.Without(hooks, object.KeysOf(remaining.objects))))
	return nil
}

// upgradeLeaving upgrades a module while its removal is blocked. In some cases, only the newer version's operator can
// remove the finalizers. After the upgrade, upgradeLeaving corrects drift, so that the operator can work.
func (rm *remover) upgradeLeaving(ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome.Outcome) error {
	if known.checkedGeneration == m.Generation {
		return rm.correctLeaving(ctx, m, known, m.Status.Synced)
	}
	upgraded, err := rm.upgrader.apply(ctx, m, known, stepApply, nil)
	if err != nil {
		return err
	}
	out.Inventory, out.Resources, out.Installation, out.Images = upgraded.Inventory, upgraded.Resources,
		upgraded.Installation, upgraded.Images
	return nil
}

// correctLeaving corrects a module's drift during its removal. After an agent restart, it compares all objects once.
func (rm *remover) correctLeaving(
	ctx context.Context, m *v1beta2.Manifest, known *memo, stay []v1beta2.Resource,
) error {
	name := client.ObjectKeyFromObject(m)
	changed := rm.watches.TakeChanged(name)
	changed.KeepOnly(object.KeysOf(stay))
	if known.checkedGeneration != m.Generation {
		changed = object.KeysOf(stay)
	}
	changed, later, _ := known.corrections.split(changed, rm.now())
	rm.watches.Restore(name, later)
	if len(changed) == 0 {
		return nil
	}
	corrected, err := rm.upgrader.apply(ctx, m, known, stepCorrect, changed)
	if err != nil || corrected.State != "" {
		rm.watches.Restore(name, changed)
		return err
	}
	known.checkedGeneration, known.checkedAt = m.Generation, rm.now()
	return nil
}
