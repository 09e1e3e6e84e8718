package controller

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// LeaseName is the name of the publisher's Lease if the flag --watch-label-selector is not set.
const LeaseName = "kcp-publisher.kyma-pull.dev"

// eventNote shortens text to the length that the API server accepts in Events.
func eventNote(text string) string {
	return bundle.Bounded(text, bundle.MaxNoteBytes)
}

// leaseReference returns a reference to the publisher's Lease. Events that do not concern a single runtime refer to it.
func leaseReference(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: cmp.Or(name, LeaseName),
	}
}
