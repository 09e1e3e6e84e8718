package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// APIServiceKind is the kind of objects that register another server's API version.
var APIServiceKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}

// CRDKind is the kind of CRDs, with the version that the agent reads.
var CRDKind = metav1.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// ClaimKind is the kind of PersistentVolumeClaims.
var ClaimKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}

// ReplicationControllerKind is the kind of ReplicationControllers.
var ReplicationControllerKind = schema.GroupKind{Kind: "ReplicationController"}

// Kinds whose objects run to completion.
var (
	JobKind = schema.GroupKind{Group: "batch", Kind: "Job"}
	PodKind = schema.GroupKind{Kind: "Pod"}
)

// Intercepts reports whether a kind is a webhook, an admission policy or an aggregated API.
func Intercepts(gk schema.GroupKind) bool {
	return gk.Group == guard.AdmissionGroup || gk == APIServiceKind
}
