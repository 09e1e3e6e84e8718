package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: v1beta2.Group, Version: "v1beta1"}

// AddToScheme adds the types of this package to the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Kyma{}, &KymaList{}, &ModuleTemplate{}, &ModuleTemplateList{}, &Manifest{}, &ManifestList{}, &Watcher{},
		&WatcherList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
