package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func (k *Kymas) registerMetrics() {
	k.metricsPart.fleet = k.fleet
	k.metricsPart.isReady = func() bool { return k.Catalog.Snapshot() != nil }
	runtimeStates.addPart(&k.metricsPart)
}

// Retire removes this publisher's Kymas from the metrics. It must be called when another process becomes responsible
// for them.
func (k *Kymas) Retire() {
	runtimeStates.removePart(&k.metricsPart)
	k.backoff.retire()
}

func (k *Kymas) updateCounts(kyma *v1beta2.Kyma) {
	catalog := k.Catalog.Snapshot()
	if catalog == nil {
		return // the catalog has not been read yet
	}
	runtimeStates.setRuntime(&k.metricsPart, client.ObjectKeyFromObject(kyma),
		fleet.Judge(kyma, fleet.Rollouts{}, k.Now()),
		catalog)
}

// announceWritten updates metrics and emits Events for the changes between two statuses of a Kyma. It must be called
// after the new status has been written. A restart does not repeat an Event, because the status contains the change
// already.
func (k *Kymas) announceWritten(kyma *v1beta2.Kyma, before, after v1beta2.KymaStatus) {
	if took, is := applyTime(before, after); is {
		publishToApplied.WithLabelValues().Observe(took.Seconds())
	}
	switch was, is := isSilent(before.Conditions), isSilent(after.Conditions); {
	case is && !was:
		reporting := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReporting)
		k.emitEvent(kyma, corev1.EventTypeWarning, v1beta2.ReasonRuntimeSilent, "Ingest",
			fmt.Sprintf("runtime %s is silent: %s", plan.RuntimeID(kyma), reporting.Message))
	case was && meta.IsStatusConditionTrue(after.Conditions, v1beta2.ConditionReporting):
		k.emitEvent(kyma, corev1.EventTypeNormal, v1beta2.ReasonRuntimeHeard, "Ingest",
			fmt.Sprintf("runtime %s reports again", plan.RuntimeID(kyma)))
	}
}

// showsRefusal reports whether the Kyma's status already shows that the publisher refused a report for the same reason.
func showsRefusal(kyma *v1beta2.Kyma, refused *refusal.Error) bool {
	r := kyma.Status.Runtime
	return plan.HasRefusedReport(kyma) && r != nil && r.Reasons != nil &&
		refusal.Reason(r.Reasons.Report) == refusal.Known(refused.Reason)
}

func isSilent(conditions []metav1.Condition) bool {
	reporting := meta.FindStatusCondition(conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionFalse && reporting.Reason == v1beta2.ReasonSilent
}

func knownReason(reason refusal.Reason) refusal.Reason {
	if slices.Contains(refusal.Reasons, reason) {
		return reason
	}
	return otherReason
}
