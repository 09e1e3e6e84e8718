package plan

import (
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// PrepareOffline prepares a Kyma from a file for use without a control plane. It returns a copy without a status, and a
// message for each setting that is ignored because it requires a control plane.
func PrepareOffline(kyma *v1beta2.Kyma) (known *v1beta2.Kyma, ignored []string) {
	known = kyma.DeepCopy()
	known.Status, known.DeletionTimestamp = v1beta2.KymaStatus{}, nil
	say := func(what, why string) {
		ignored = append(ignored, fmt.Sprintf("Kyma %s: %s is ignored: %s", kyma.Name, what, why))
	}
	if _, set := kyma.Annotations[v1beta2.AnnotationRevokedKeys]; set {
		say("annotation "+v1beta2.AnnotationRevokedKeys, "only a control plane knows the key of the runtime's agent")
	}
	if _, set := kyma.Annotations[v1beta2.AnnotationApprovedRemovals]; set {
		delete(known.Annotations, v1beta2.AnnotationApprovedRemovals)
		say("annotation "+v1beta2.AnnotationApprovedRemovals, "only an operator approves removals: see --approve-removals")
	}
	for _, label := range []string{v1beta2.LabelForceDeletion, v1beta2.LabelRuntimeGone} {
		if _, set := kyma.Labels[label]; set {
			say("label "+label, "only a control plane deletes Kymas and waits for their runtimes")
		}
	}
	if !kyma.DeletionTimestamp.IsZero() {
		say("metadata.deletionTimestamp", "only a control plane deletes Kymas: remove all modules instead")
	}
	return known, ignored
}
