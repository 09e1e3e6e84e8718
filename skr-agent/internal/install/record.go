package install

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// record writes the outcome to the status if it changed.
func (i *Installer) record(ctx context.Context, m *v1beta2.Manifest, out outcome.Outcome) (ctrl.Result, error) {
	if out.Gone {
		return ctrl.Result{}, i.finish(ctx, m)
	}
	if out.KeepStatus {
		return ctrl.Result{RequeueAfter: out.Again}, nil
	}
	out.Ready.Message = outcome.Clip(out.Ready.Message)
	before := m.Status
	if err := i.writeStatus(ctx, m, out); err != nil {
		return ctrl.Result{}, err
	}
	if before.State != out.State {
		log.FromContext(ctx).Info("module changed its state", "module", m.Module(), "version", m.Spec.Version,
			"state", out.State, "was", before.State, "message", out.Ready.Message)
		kind := "Normal"
		if out.State == v1beta2.StateError || out.State == v1beta2.StateWarning {
			kind = "Warning"
		}
		i.events.Eventf(m, nil, kind, out.Ready.Reason, "Install", "%s", out.Ready.Message)
		if out.State == v1beta2.StateReady {
			debug.FreeOSMemory() // otherwise, Go would keep freed memory for minutes
		}
	}
	return ctrl.Result{RequeueAfter: out.Again}, nil
}

// recordRetry writes an error to the status before a retry. Otherwise, Ready=True from an earlier reconciliation would
// hide the error. A temporary error does not replace a status of the current generation.
func (i *Installer) recordRetry(ctx context.Context, m *v1beta2.Manifest, cause error) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if apierrors.IsConflict(cause) || account.IsTemporary(cause) && (ready == nil || ready.ObservedGeneration == m.Generation) {
		return
	}
	out := outcome.Outcome{
		State: v1beta2.StateProcessing, Inventory: m.Status.Synced,
		Ready: outcome.Finding{
			Reason: v1beta2.ReasonInstalling, Message: outcome.Clip("retrying after an error: " + cause.Error()),
		},
	}
	if !m.DeletionTimestamp.IsZero() {
		out.State, out.Ready.Reason = v1beta2.StateDeleting, v1beta2.ReasonRemoving
	}
	if err := i.writeStatus(ctx, m, out); err != nil {
		log.FromContext(ctx).V(1).Info("failed to record an error", "module", m.Module(), "error", err.Error())
	}
}

func (i *Installer) writeStatus(ctx context.Context, m *v1beta2.Manifest, out outcome.Outcome) error {
	before := m.DeepCopy()
	m.Status = outcome.StatusOf(m, out, i.now())
	if equality.Semantic.DeepEqual(before.Status, m.Status) {
		return nil
	}
	if err := i.cluster.Status().Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// announce writes the inventory to the status before the installer applies any object.
func (i *Installer) announce(
	ctx context.Context, m *v1beta2.Manifest, out outcome.Outcome, inventory []v1beta2.Resource,
) (outcome.Outcome, error) {
	out.Inventory = inventory
	condition := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	if condition != nil && condition.ObservedGeneration == m.Generation &&
		equality.Semantic.DeepEqual(m.Status.Synced, inventory) {
		return out, nil
	}
	first := out
	first.State = v1beta2.StateProcessing
	first.Ready = outcome.Finding{
		Reason:  v1beta2.ReasonInstalling,
		Message: strings.TrimSpace("applying version " + m.Spec.Version),
	}
	first.Installation = &outcome.Finding{
		Reason:  v1beta2.ReasonApplying,
		Message: fmt.Sprintf("applying %d objects", len(inventory)),
	}
	return out, i.writeStatus(ctx, m, first)
}

// finish removes the finalizer of a Manifest.
func (i *Installer) finish(ctx context.Context, m *v1beta2.Manifest) error {
	before := m.DeepCopy()
	if !controllerutil.RemoveFinalizer(m, v1beta2.FinalizerManifest) {
		return nil
	}
	err := i.cluster.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	i.forget(client.ObjectKeyFromObject(m))
	i.retain(ctx, m, nil)
	log.FromContext(ctx).Info("removed module", "module", m.Module())
	return nil
}
