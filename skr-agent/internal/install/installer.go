package install

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Reconcile runs the next step for one Manifest and writes its status.
func (i *Installer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m, err := i.readManifest(ctx, req)
	if err != nil || m == nil || m.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True ||
		record.ReadUnverified(m).Restoring {
		return ctrl.Result{}, err
	}
	defer i.memos.recordSeen(m)
	if err := i.reporter.restoreInventory(ctx, m, i.Inventories.Missing(m)); err != nil {
		return ctrl.Result{}, err
	}
	defer i.recordInventory(m)
	var out outcome.Outcome
	switch {
	case !m.DeletionTimestamp.IsZero():
		out, err = i.remover.remove(ctx, m)
	case i.planner.records.IsUnmanaged(m):
		out = outcome.Unmanaged(m)
	default:
		out, err = i.installModule(ctx, m)
	}
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the agent is stopping
	}
	if apierrors.IsForbidden(err) {
		out, err = i.deniedOutcome(m, err), nil
	}
	known := i.memos.forManifest(m)
	if err != nil {
		i.reporter.recordRetry(ctx, m, known, err)
		return ctrl.Result{}, fmt.Errorf("reconcile Manifest %s: %w", req.Name, err)
	}
	known.failingSince = time.Time{}
	return i.recordOutcome(ctx, m, out)
}

// readManifest returns a Manifest, or nil if it does not exist. It uses the cached Manifest only if it has the version
// that this process last read or wrote. An outdated Manifest would contain an outdated inventory, and the agent would
// lose track of objects.
func (i *Installer) readManifest(ctx context.Context, req ctrl.Request) (*v1beta2.Manifest, error) {
	var m v1beta2.Manifest
	if version := i.memos.version(req.NamespacedName); version != "" {
		if err := i.planner.cached.Get(ctx, req.NamespacedName, &m); err == nil && m.ResourceVersion == version {
			return &m, nil
		}
		m = v1beta2.Manifest{}
	}
	if err := i.cluster.Get(ctx, req.NamespacedName, &m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			i.dropMemo(req.NamespacedName)
			return nil, nil
		}
		return nil, err
	}
	return &m, nil
}

func (i *Installer) installModule(ctx context.Context, m *v1beta2.Manifest) (outcome.Outcome, error) {
	if controllerutil.AddFinalizer(m, v1beta2.FinalizerManifest) {
		before := m.DeepCopy()
		controllerutil.RemoveFinalizer(before, v1beta2.FinalizerManifest)
		if err := i.cluster.Patch(ctx, m,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return outcome.Outcome{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	known, name := i.memos.forManifest(m), client.ObjectKeyFromObject(m)
	known.freshObjects = nil
	if err := i.applier.recordCompleted(ctx, m); err != nil {
		return outcome.Outcome{}, err
	}
	changed := i.watches.TakeChanged(name)
	changed.KeepOnly(i.planner.correctedObjects(m)) // ignore changes to objects that the module does not contain
	todo := nextStep(m, *known, changed, i.pacer.now(), i.Resync)
	hasMoves, err := i.planner.partnersChanged(ctx, m, known)
	if err != nil {
		i.watches.Restore(name, changed)
		return outcome.Outcome{}, err
	}
	if hasMoves {
		todo = stepApply
	}
	var heldBack time.Duration
	if todo == stepCorrect {
		var later object.Keys
		changed, later, heldBack = known.corrections.split(changed, i.pacer.now())
		i.watches.Restore(name, later)
		if len(changed) == 0 {
			todo = stepCheck
		}
	}
	out := outcome.Outcome{Inventory: m.Status.Synced}
	if todo != stepCheck {
		known.dropRefusal(changed)
		if refused := known.recordedRefusal(m, i.pacer.now()); refused != nil && todo == stepApply {
			out = *refused
		} else {
			out, err = i.upgrader.apply(ctx, m, known, todo, changed)
		}
		if err == nil && mustCorrectApplied(m, out) {
			changed = i.upgrader.correctApplied(ctx, m, known, changed)
		}
		if err != nil || out.State != "" {
			i.watches.Restore(name, changed)
			return out, err
		}
	}
	return i.upgrader.addReadiness(ctx, m, known, out, heldBack)
}

// recordOutcome writes the outcome to the status if it changed.
func (i *Installer) recordOutcome(ctx context.Context, m *v1beta2.Manifest, out outcome.Outcome) (ctrl.Result, error) {
	if out.Gone {
		return ctrl.Result{}, i.removeFinalizer(ctx, m)
	}
	if out.KeepStatus {
		return ctrl.Result{RequeueAfter: out.Again}, nil
	}
	out.Ready.Message = outcome.Clip(out.Ready.Message)
	before := m.Status
	if err := i.reporter.writeStatus(ctx, m, out); err != nil {
		return ctrl.Result{}, err
	}
	if before.State != out.State {
		log.FromContext(ctx).Info("module state changed", "module", m.Module(), "version", m.Spec.Version,
			"state", out.State, "was", before.State, "message", out.Ready.Message)
		kind := "Normal"
		if out.State == v1beta2.StateError || out.State == v1beta2.StateWarning {
			kind = "Warning"
		}
		i.reporter.events.Eventf(m, nil, kind, out.Ready.Reason, "Install", "%s", out.Ready.Message)
		if out.State == v1beta2.StateReady {
			debug.FreeOSMemory() // otherwise, Go would keep freed memory for minutes
		}
	}
	return ctrl.Result{RequeueAfter: out.Again}, nil
}

// removeFinalizer removes a Manifest's finalizer.
func (i *Installer) removeFinalizer(ctx context.Context, m *v1beta2.Manifest) error {
	before := m.DeepCopy()
	if !controllerutil.RemoveFinalizer(m, v1beta2.FinalizerManifest) {
		return nil
	}
	err := i.cluster.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	i.dropMemo(client.ObjectKeyFromObject(m))
	i.deleter.retain(ctx, m, nil)
	log.FromContext(ctx).Info("removed module", "module", m.Module())
	return nil
}

// deniedOutcome returns the outcome if the API server responds with Forbidden although the agent has checked the
// permissions.
func (i *Installer) deniedOutcome(m *v1beta2.Manifest, err error) outcome.Outcome {
	known, why := i.memos.forManifest(m), v1beta2.ReasonForbidden
	if !account.LacksRight(err) {
		why = v1beta2.ReasonApplyFailed
	}
	return outcome.Outcome{
		State: v1beta2.StateError, Inventory: m.Status.Synced,
		Ready: outcome.Finding{
			Reason: why,
			Message: fmt.Sprintf("the API server denied a request of %s: %v",
				cmp.Or(i.planner.accounts.Of(m).User, "the agent"), err),
		},
		Again: known.nextCheck(m.Generation, i.pacer.now(), 4*i.CheckInterval),
	}
}

// recordInventory records a Manifest's inventory at the end of its reconciliation, unless its module was removed.
func (i *Installer) recordInventory(m *v1beta2.Manifest) {
	if controllerutil.ContainsFinalizer(m, v1beta2.FinalizerManifest) {
		i.Inventories.Record(m)
	}
}

func (i *Installer) dropMemo(name types.NamespacedName) {
	i.memos.forget(name)
	i.Inventories.Forget(name)
	i.planner.plans.Forget(name)
	i.planner.claimed.forget(name)
	i.watches.TakeChanged(name)
	i.watches.TakeCompleted(name)
}
