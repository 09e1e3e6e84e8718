package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all types in this package.
const Group = "operator.kyma-project.io"

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1beta2"}

// AddToScheme adds the types of this package to the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Kyma{}, &KymaList{},
		&ModuleTemplate{}, &ModuleTemplateList{},
		&ModuleReleaseMeta{}, &ModuleReleaseMetaList{},
		&Manifest{}, &ManifestList{},
		&Watcher{}, &WatcherList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
