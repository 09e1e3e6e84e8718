package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// announceDeviation logs and emits an Event if the registry does not contain the published bundle.
func (k *Kymas) announceDeviation(ctx context.Context, kyma *v1beta2.Kyma, d *plan.Deviation) {
	if d == nil {
		return
	}
	registryDeviations.WithLabelValues(d.Reason).Inc()
	runtime := plan.RuntimeID(kyma)
	ctrl.LoggerFrom(ctx).Info("the registry does not contain the published bundle, publishing it again", "runtime",
		runtime, "reason", d.Reason, "detail", d.Message)
	k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, d.Reason, "Publish", "%s",
		eventNote(fmt.Sprintf("runtime %s: %s", runtime, d.Message)))
}

// announceRestored logs that the publisher restored missing content in the registry.
func announceRestored(ctx context.Context, what string) {
	registryDeviations.WithLabelValues(restoredLabel).Inc()
	ctrl.LoggerFrom(ctx).Info("restored missing content in the registry", "what", what)
}

// restoredLabel is the metric label for restored content that several runtimes share.
const restoredLabel = "SharedMissing"

// announceNewer emits an Event if a runtime reports a newer bundle than this publisher knows. The reason is that
// another publisher is active or that the control plane has lost data.
func (k *Kymas) announceNewer(ctx context.Context, kyma *v1beta2.Kyma, report bundle.AcceptedReport) {
	observed := report.Observed
	newest := k.publishRecord(kyma).NewestPosition()
	if status := kyma.Status.Runtime; status != nil && status.Published != nil &&
		status.Published.Epoch >= newest.Epoch {
		newest = plan.RecordedBundle{Epoch: status.Published.Epoch, Sequence: max(status.Published.Sequence, newest.Sequence)}
	}
	if newest.Sequence == 0 || observed == nil || observed.Epoch != newest.Epoch ||
		observed.Sequence <= newest.Sequence || plan.IsAhead(observed.Sequence, k.Now()) {
		return
	}
	k.publishRecord(kyma).RequestCheck()
	message := fmt.Sprintf("the runtime has accepted bundle %d, but the latest bundle known to this publisher is %d",
		observed.Sequence, newest.Sequence)
	if k.mayAnnounce(kyma, corev1.EventTypeWarning) {
		k.announceDeviation(ctx, kyma, &plan.Deviation{Reason: v1beta2.ReasonBundleUnknown, Message: message})
	}
}
