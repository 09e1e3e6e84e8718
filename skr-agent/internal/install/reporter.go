package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// reporter writes a reconciliation's outcome to the Manifest's status and to Events.
type reporter struct {
	cluster client.Client
	events  events.EventRecorder
	now     func() time.Time
}

func (rp *reporter) writeStatus(ctx context.Context, m *v1beta2.Manifest, out outcome.Outcome) error {
	before := m.DeepCopy()
	m.Status = outcome.StatusOf(m, out, rp.now())
	if equality.Semantic.DeepEqual(before.Status, m.Status) {
		return nil
	}
	if err := rp.patchStatus(ctx, m, before); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// patchStatus patches the Manifest's status. The parameter before is the Manifest without the changes in m. Another
// client can remove entries from the inventory before the patch. The response then lacks these entries. m keeps them,
// so that the agent restores them.
func (rp *reporter) patchStatus(ctx context.Context, m, before *v1beta2.Manifest) error {
	inventory := m.Status.Synced
	err := rp.cluster.Status().Patch(ctx, m, client.MergeFrom(before))
	m.Status.Synced = inventory
	return err
}

// restoreInventory adds lost objects to the inventory in the status. An object is lost if another client removed it
// from the inventory, or if the agent failed to write the inventory. A later removal of the module deletes only objects
// in the inventory.
func (rp *reporter) restoreInventory(ctx context.Context, m *v1beta2.Manifest, lost []v1beta2.Resource) error {
	if len(lost) == 0 {
		return nil
	}
	before := m.DeepCopy()
	m.SetInventory(object.Union(m.Status.Synced, lost))
	if err := rp.patchStatus(ctx, m, before); err != nil {
		return fmt.Errorf("restore the inventory in the status: %w", err)
	}
	log.FromContext(ctx).Info("restored objects that were missing in the inventory", "module", m.Module(),
		"objects", len(lost))
	return nil
}

// announce writes the inventory to the status before the installer applies any object. The API server's response
// replaces m. If the Manifest's request changed since the plan was made, announce returns a conflict. Otherwise, the
// installer would apply the plan, and then report the new request as applied.
func (rp *reporter) announce(
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
	planned := requestKey(m)
	if err := rp.writeStatus(ctx, m, first); err != nil {
		return out, err
	}
	if requestKey(m) != planned {
		return out, apierrors.NewConflict(schema.GroupResource{Group: v1beta2.Group, Resource: "manifests"}, m.Name,
			errors.New("the Manifest changed while the agent planned its objects"))
	}
	return out, nil
}

// recordRetry writes an error to the status before a retry. Otherwise, Ready=True from an earlier reconciliation would
// hide the error.
func (rp *reporter) recordRetry(ctx context.Context, m *v1beta2.Manifest, known *memo, cause error) {
	if !known.mustRecordRetry(m, cause, rp.now()) {
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
	if err := rp.writeStatus(ctx, m, out); err != nil {
		log.FromContext(ctx).V(1).Info("failed to record an error", "module", m.Module(), "error", err.Error())
	}
}

// recordDrift records corrected objects in an Event, the log and metrics.
func (rp *reporter) recordDrift(ctx context.Context, m *v1beta2.Manifest, corrected []guard.Key) {
	names := make([]string, len(corrected))
	for n, k := range corrected {
		names[n] = k.String()
		driftCorrected.WithLabelValues(m.Module(), k.Kind).Inc()
	}
	text := excerpt.FirstFew(names)
	log.FromContext(ctx).Info("reverted drift", "module", m.Module(), "objects", text)
	rp.events.Eventf(m, nil, "Normal", v1beta2.ReasonDriftCorrected, "Correct", "reverted drift in %s", text)
}

// fieldsOf returns the finding about unknown fields in a plan's objects. The API server would reject an object with
// such a field, so the agent applies the object without the field. fieldsOf returns nil if no field is unknown and the
// Manifest does not have the condition Fields.
func (rp *reporter) fieldsOf(m *v1beta2.Manifest, p planning.Plan) *outcome.Finding {
	before := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionFields)
	if len(p.Ignored) == 0 {
		if before == nil {
			return nil
		}
		return &outcome.Finding{OK: true, Reason: v1beta2.ReasonFieldsKnown, Message: "the objects have no unknown fields"}
	}
	found := &outcome.Finding{
		Reason: v1beta2.ReasonUnknownFields, Message: outcome.Clip("ignored " + excerpt.FirstFew(p.Ignored)),
	}
	if before == nil || before.Message != found.Message {
		rp.events.Eventf(m, nil, "Warning", found.Reason, "Install", "%s", found.Message)
	}
	return found
}
