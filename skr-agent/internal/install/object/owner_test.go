package object

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const home = v1beta2.RuntimeNamespace

func TestOwnershipDependsOnAnnotationsLabelsAndFieldManagers(t *testing.T) {
	by := Owner{OwnedBy: "kyma-system/keda", Module: "keda", Namespace: home,
		InheritedOwners: []string{"kcp-system/default-keda-123"}}
	for name, c := range map[string]struct {
		annotations, labels map[string]string
		owned, asDefaultCR  bool
		managers            []metav1.ManagedFieldsEntry
	}{
		"object without an annotation or label": {nil, nil, false, false, nil},
		"owned-by names this Manifest": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/keda"}, nil, true, true, nil,
		},
		"owned-by names another Manifest": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other"}, nil, false, false, nil,
		},
		"adopt names this Manifest": {
			map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, true, nil,
		},
		"adopt names another Manifest": {
			map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda-2"}, nil, false, false, nil,
		},
		"owned-by names another Manifest, and adopt names this Manifest": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other",
				v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, false, nil,
		},
		"object of this module after it became unmanaged": {
			nil, map[string]string{v1beta2.LabelModuleName: "keda"}, true, true, nil,
		},
		"object of another module after it became unmanaged": {
			nil, map[string]string{v1beta2.LabelModuleName: "other", v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"lifecycle-manager's previous annotation": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true, nil,
		},
		"lifecycle-manager's current annotation": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true, nil,
		},
		"lifecycle-manager's current annotation for another module": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-istio-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"lifecycle-manager's annotation, and owned-by names another Manifest": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123",
				v1beta2.AnnotationOwnedBy: "kyma-system/other"}, map[string]string{v1beta2.LabelManagedBy: "kyma"},
			false, false, nil,
		},
		"lifecycle-manager's previous annotation and label": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "declarative-v2"}, true, true, nil,
		},
		"lifecycle-manager's previous annotation for another module": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-kedas-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"lifecycle-manager's previous annotation without a label": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"}, nil, false, false, nil,
		},
		"default CR with lifecycle-manager's label": {
			nil, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, true, nil,
		},
		"label of another tool": {
			nil, map[string]string{v1beta2.LabelManagedBy: "helm"}, false, false, nil,
		},
		"default CR that lifecycle-manager created": {
			nil, nil, false, true, wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"default CR that lifecycle-manager created and a user changed": {
			nil, nil, false, true,
			append(wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
				wrote("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "")...),
		},
		"default CR that another module adopted": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other"}, nil, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"default CR of another module after it became unmanaged": {
			nil, map[string]string{v1beta2.LabelModuleName: "other"}, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"user's object with a status that lifecycle-manager wrote": {
			nil, nil, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, "status"),
		},
		"user's object with fields that lifecycle-manager applied": {
			nil, nil, false, false, wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationApply, ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations, Labels: c.labels, ManagedFields: c.managers},
			}
			require.Equal(t, c.owned, by.Owns(o))
			require.Equal(t, c.asDefaultCR, by.OwnsDefaultCR(o))
		})
	}
}

func wrote(
	manager string, operation metav1.ManagedFieldsOperationType, subresource string,
) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, Operation: operation, Subresource: subresource}}
}
