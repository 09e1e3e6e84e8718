package install

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// outcome is the result of reconciling a Manifest.
type outcome struct {
	state     v1beta2.State
	inventory []v1beta2.Resource
	// resources, installation, images, rights, fields and ready become the Manifest's conditions. A nil finding leaves
	// its condition unchanged.
	resources, installation, images, rights, fields *finding
	ready                                           finding
	// again is the time until the next reconciliation, or 0 to wait for an event.
	again time.Duration
	// untouched is true if the installer wrote none of the module's objects.
	untouched bool
	// forbidden is true if the module's account is not allowed to write its objects.
	forbidden bool
	// If keepStatus is true, the status must not change.
	keepStatus bool
	// gone is true if the Manifest's finalizer can be removed.
	gone bool
}

// finding contains the status, reason and message of a condition.
type finding struct {
	ok      bool
	unknown bool
	reason  string
	message string
}

// clip limits the length of messages from other sources, such as a chart's fail function.
func clip(message string) string {
	const more = "…"
	if len(message) > bundle.MaxNoteBytes {
		return bundle.Bounded(message, bundle.MaxNoteBytes-len(more)) + more
	}
	return bundle.Bounded(message, bundle.MaxNoteBytes)
}

// statusOf returns the Manifest's new status. Unchanged values keep their times.
func statusOf(m *v1beta2.Manifest, out outcome, now time.Time) v1beta2.ManifestStatus {
	next := *m.Status.DeepCopy()
	next.State, next.Synced, next.ObservedGeneration = out.state, out.inventory, m.Generation
	for _, c := range []struct {
		kind string
		*finding
	}{
		{v1beta2.ConditionResources, out.resources},
		{v1beta2.ConditionInstallation, out.installation},
		{v1beta2.ConditionImages, out.images},
		{v1beta2.ConditionRights, out.rights},
		{v1beta2.ConditionFields, out.fields},
		{v1beta2.ConditionReady, &out.ready},
	} {
		if c.finding == nil {
			continue
		}
		status := metav1.ConditionFalse
		switch {
		case c.ok:
			status = metav1.ConditionTrue
		case c.unknown:
			status = metav1.ConditionUnknown
		}
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: c.kind, Status: status, Reason: c.reason, Message: clip(c.message), ObservedGeneration: m.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	if last := next.LastOperation; last == nil || last.Operation != out.ready.message {
		next.LastOperation = &v1beta2.LastOperation{Operation: out.ready.message, LastUpdateTime: metav1.NewTime(now)}
	}
	return next
}

// record writes the outcome to the status if it changed.
func (i *Installer) record(ctx context.Context, m *v1beta2.Manifest, out outcome) (ctrl.Result, error) {
	if out.gone {
		return ctrl.Result{}, i.finish(ctx, m)
	}
	if out.keepStatus {
		return ctrl.Result{RequeueAfter: out.again}, nil
	}
	out.ready.message = clip(out.ready.message)
	before := m.Status
	if err := i.writeStatus(ctx, m, out); err != nil {
		return ctrl.Result{}, err
	}
	if before.State != out.state {
		log.FromContext(ctx).Info("module changed its state", "module", m.Module(), "version", m.Spec.Version,
			"state", out.state, "was", before.State, "message", out.ready.message)
		kind := "Normal"
		if out.state == v1beta2.StateError || out.state == v1beta2.StateWarning {
			kind = "Warning"
		}
		i.events.Eventf(m, nil, kind, out.ready.reason, "Install", "%s", out.ready.message)
		if out.state == v1beta2.StateReady {
			debug.FreeOSMemory() // otherwise, Go would keep freed memory for minutes
		}
	}
	return ctrl.Result{RequeueAfter: out.again}, nil
}

// recordRetry writes an error to the status before a retry. Otherwise, Ready=True from an earlier reconciliation would
// hide the error. A temporary error does not replace a status of the current generation.
func (i *Installer) recordRetry(ctx context.Context, m *v1beta2.Manifest, cause error) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if apierrors.IsConflict(cause) || isTemporary(cause) && (ready == nil || ready.ObservedGeneration == m.Generation) {
		return
	}
	out := outcome{
		state: v1beta2.StateProcessing, inventory: m.Status.Synced,
		ready: finding{
			reason: v1beta2.ReasonInstalling, message: clip("retrying after an error: " + cause.Error()),
		},
	}
	if !m.DeletionTimestamp.IsZero() {
		out.state, out.ready.reason = v1beta2.StateDeleting, v1beta2.ReasonRemoving
	}
	if err := i.writeStatus(ctx, m, out); err != nil {
		log.FromContext(ctx).V(1).Info("failed to record an error", "module", m.Module(), "error", err.Error())
	}
}

func (i *Installer) writeStatus(ctx context.Context, m *v1beta2.Manifest, out outcome) error {
	before := m.DeepCopy()
	m.Status = statusOf(m, out, i.now())
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
	ctx context.Context, m *v1beta2.Manifest, out outcome, inventory []v1beta2.Resource,
) (outcome, error) {
	out.inventory = inventory
	condition := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	if condition != nil && condition.ObservedGeneration == m.Generation &&
		equality.Semantic.DeepEqual(m.Status.Synced, inventory) {
		return out, nil
	}
	first := out
	first.state = v1beta2.StateProcessing
	first.ready = finding{
		reason:  v1beta2.ReasonInstalling,
		message: strings.TrimSpace("applying version " + m.Spec.Version),
	}
	first.installation = &finding{
		reason:  v1beta2.ReasonApplying,
		message: fmt.Sprintf("applying %d objects", len(inventory)),
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
