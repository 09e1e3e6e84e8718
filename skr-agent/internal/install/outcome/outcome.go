// Package outcome describes the result of reconciling a Manifest, and converts it to the Manifest's status. It is pure.
package outcome

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
)

// Outcome is the result of reconciling a Manifest.
type Outcome struct {
	State     v1beta2.State
	Inventory []v1beta2.Resource
	// Resources, Installation, Images, Rights, Fields and Ready become the Manifest's conditions. A nil finding leaves
	// its condition unchanged.
	Resources, Installation, Images, Rights, Fields *Finding
	Ready                                           Finding
	// Again is the time until the next reconciliation, or 0 to wait for an event.
	Again time.Duration
	// Untouched is true if the installer did not write any of the module's objects.
	Untouched bool
	// Forbidden is true if the module's account is not allowed to write its objects.
	Forbidden bool
	// If KeepStatus is true, the status must not change.
	KeepStatus bool
	// Gone is true if the Manifest's finalizer can be removed.
	Gone bool
}

// Finding contains a condition's status, reason and message.
type Finding struct {
	OK      bool
	Unknown bool
	Reason  string
	Message string
}

// Clip masks secrets in messages from other sources, such as a chart's fail function or the API server, and limits the
// length of messages. It masks first, because a shortened secret is harder to recognize.
func Clip(message string) string {
	const more = "…"
	message = excerpt.RedactKnown(message)
	if len(message) > bundle.MaxNoteBytes {
		return bundle.Bounded(message, bundle.MaxNoteBytes-len(more)) + more
	}
	return bundle.Bounded(message, bundle.MaxNoteBytes)
}

// StatusOf returns the Manifest's new status. Unchanged values keep their times.
func StatusOf(m *v1beta2.Manifest, out Outcome, now time.Time) v1beta2.ManifestStatus {
	out.Ready.Message = Clip(out.Ready.Message)
	next := *m.Status.DeepCopy()
	next.State, next.Synced, next.ObservedGeneration = out.State, out.Inventory, m.Generation
	for _, c := range []struct {
		kind string
		*Finding
	}{
		{v1beta2.ConditionResources, out.Resources},
		{v1beta2.ConditionInstallation, out.Installation},
		{v1beta2.ConditionImages, out.Images},
		{v1beta2.ConditionRights, out.Rights},
		{v1beta2.ConditionFields, out.Fields},
		{v1beta2.ConditionReady, &out.Ready},
	} {
		if c.Finding == nil {
			continue
		}
		status := metav1.ConditionFalse
		switch {
		case c.OK:
			status = metav1.ConditionTrue
		case c.Unknown:
			status = metav1.ConditionUnknown
		}
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: c.kind, Status: status, Reason: c.Reason, Message: Clip(c.Message), ObservedGeneration: m.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	if last := next.LastOperation; last == nil || last.Operation != out.Ready.Message {
		next.LastOperation = &v1beta2.LastOperation{Operation: out.Ready.Message, LastUpdateTime: metav1.NewTime(now)}
	}
	return next
}

// Unmanaged returns the outcome for a Manifest that the agent must not reconcile.
func Unmanaged(m *v1beta2.Manifest) Outcome {
	return Outcome{
		Inventory: m.Status.Synced, State: v1beta2.StateUnmanaged,
		Ready: Finding{
			Reason: v1beta2.ReasonUnmanaged, Message: "module is unmanaged: its objects stay in the runtime",
		},
	}
}
