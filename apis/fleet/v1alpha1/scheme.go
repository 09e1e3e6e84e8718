package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all types in this package.
const Group = "fleet.kyma-project.io"

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme adds the types of this package to the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &RolloutPolicy{}, &RolloutPolicyList{}, &Rollout{}, &RolloutList{})
	scheme.AddKnownTypes(GroupVersion, &PromotionPolicy{}, &PromotionPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
