package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Runtime is an action on a runtime's Kyma.
type Runtime = Action[v1beta2.Kyma]

// MaxReasonBytes limits the reason for suspending a runtime.
const MaxReasonBytes = 1 << 10

// Suspend stops publishing to a runtime. The reason can be empty.
func Suspend(reason string) Runtime {
	return Runtime{"Suspended", func(kyma *v1beta2.Kyma) (string, error) {
		switch {
		case len(reason) > MaxReasonBytes:
			return "", fmt.Errorf("the reason is %d bytes, must be at most %d", len(reason), MaxReasonBytes)
		case v1beta2.TakenOver(kyma):
			return "", fmt.Errorf(
				"the runtime is being taken over, and the label %s already suspends lifecycle-manager: run "+
					"`kcp-publisher takeover finish` or `abort` first",
				v1beta2.LabelSkipReconciliation,
			)
		case !kyma.DeletionTimestamp.IsZero():
			return "", errors.New("the Kyma is being deleted, and a deletion cannot be suspended")
		}
		before := kyma.Labels[v1beta2.LabelSkipReconciliation]
		kyma.Labels = withEntry(kyma.Labels, v1beta2.LabelSkipReconciliation, v1beta2.True)
		switch {
		case reason != "":
			kyma.Annotations = withEntry(kyma.Annotations, v1beta2.AnnotationSuspendReason, bundle.PrintableLine(reason))
		case before != v1beta2.True: // the annotation is left over from an earlier suspension
			delete(kyma.Annotations, v1beta2.AnnotationSuspendReason)
		}
		if before == v1beta2.True {
			return "was already suspended", nil
		}
		return "is suspended: its agent continues to apply the last bundle, and no new bundles are published", nil
	}}
}

// Resume ends a runtime's suspension.
func Resume() Runtime {
	return Runtime{"Resumed", func(kyma *v1beta2.Kyma) (string, error) {
		if v1beta2.TakenOver(kyma) {
			return "", fmt.Errorf(
				"the runtime is not suspended: it is being taken over, and the label %s only suspends "+
					"lifecycle-manager",
				v1beta2.LabelSkipReconciliation,
			)
		}
		suspended := kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True
		delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
		delete(kyma.Annotations, v1beta2.AnnotationSuspendReason)
		if !suspended {
			return "was not suspended", nil
		}
		return "is resumed", nil
	}}
}

// Reconcile makes the publisher reconcile a runtime immediately.
func Reconcile(now time.Time) Runtime {
	return Runtime{"ReconcileRequested", func(kyma *v1beta2.Kyma) (string, error) {
		if plan.IsSkipped(kyma) {
			return "", errors.New("the runtime is suspended: run `kcp-publisher resume` first")
		}
		kyma.Annotations = withEntry(kyma.Annotations, v1beta2.AnnotationReconcileRequested,
			now.UTC().Format(time.RFC3339Nano))
		return "will be reconciled", nil
	}}
}

// RunChecks requests that a runtime's agent run a module's checks once. It replaces an earlier request.
func RunChecks(run bundle.CheckRun) Runtime {
	return Runtime{"CheckRunRequested", func(kyma *v1beta2.Kyma) (string, error) {
		if plan.IsSkipped(kyma) {
			return "", errors.New("the runtime is suspended: run `kcp-publisher resume` first")
		}
		text, err := json.Marshal(run)
		if err != nil {
			return "", err
		}
		if _, err := bundle.ParseCheckRun(string(text)); err != nil {
			return "", err
		}
		kyma.Annotations = withEntry(kyma.Annotations, v1beta2.AnnotationCheckRun, string(text))
		return "has a request to run the checks of module " + run.Module, nil
	}}
}

// EndCheckRun removes the request with this ID that RunChecks added to the Kyma.
func EndCheckRun(id string) Runtime {
	return Runtime{"CheckRunEnded", func(kyma *v1beta2.Kyma) (string, error) {
		run, err := bundle.ParseCheckRun(kyma.Annotations[v1beta2.AnnotationCheckRun])
		if run == nil || err != nil || run.ID != id {
			return "does not have this request", nil //nolint:nilerr // an invalid annotation does not contain this ID
		}
		delete(kyma.Annotations, v1beta2.AnnotationCheckRun)
		return "no longer has a request to run checks", nil
	}}
}

// Revoke revokes the current key of a runtime's agent.
func Revoke() Runtime {
	return Runtime{"KeyRevoked", func(kyma *v1beta2.Kyma) (string, error) {
		if kyma.Status.Runtime == nil || kyma.Status.Runtime.Key == nil {
			return "", errors.New("the runtime's agent has not reported its key yet")
		}
		thumbprint := kyma.Status.Runtime.Key.Thumbprint
		revoked := strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
		if slices.Contains(revoked, thumbprint) {
			return "already has the revoked key " + thumbprint, nil
		}
		kyma.Annotations = withEntry(kyma.Annotations, v1beta2.AnnotationRevokedKeys,
			strings.Join(append(revoked, thumbprint), " "))
		note := "no longer accepts key " + thumbprint
		if kyma.Annotations[v1beta2.AnnotationGitCommit] != "" {
			note += "; commit the annotation " + v1beta2.AnnotationRevokedKeys +
				" to its Kyma in Git, otherwise a control plane rebuilt from Git accepts the key again"
		}
		return note, nil
	}}
}

func withEntry(entries map[string]string, key, value string) map[string]string {
	if entries == nil {
		entries = map[string]string{}
	}
	entries[key] = value
	return entries
}
