package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestOwners(t *testing.T) {
	by := Owner{Mark: "kyma-system/keda", Module: "keda", Namespace: home,
		Inherits: []string{"kcp-system/default-keda-123"}}
	for name, c := range map[string]struct {
		annotations, labels map[string]string
		owned, asDefaultCR  bool
		managers            []metav1.ManagedFieldsEntry
	}{
		"somebody's": {nil, nil, false, false, nil},
		"its own": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/keda"}, nil, true, true, nil,
		},
		"another module's": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other"}, nil, false, false, nil,
		},
		"handed over to it": {
			map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, true, nil,
		},
		"handed over to another": {
			map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda-2"}, nil, false, false, nil,
		},
		"another's, and handed on": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other",
				v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, false, nil,
		},
		"left in place by it": {
			nil, map[string]string{v1beta2.LabelModuleName: "keda"}, true, true, nil,
		},
		"left in place by another": {
			nil, map[string]string{v1beta2.LabelModuleName: "other", v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"lifecycle-manager's": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true, nil,
		},
		"lifecycle-manager's by its mark of today": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true, nil,
		},
		"that, for another module": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-istio-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"that, and another module's here since": {
			map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123",
				v1beta2.AnnotationOwnedBy: "kyma-system/other"}, map[string]string{v1beta2.LabelManagedBy: "kyma"},
			false, false, nil,
		},
		"an older one's": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"},
			map[string]string{v1beta2.LabelManagedBy: "declarative-v2"}, true, true, nil,
		},
		"of its for another module": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-kedas-123"},
			map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false, nil,
		},
		"such a mark and no label": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"}, nil, false, false, nil,
		},
		"a default CR of its": {
			nil, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, true, nil,
		},
		"a label of another tool": {
			nil, map[string]string{v1beta2.LabelManagedBy: "helm"}, false, false, nil,
		},
		"a default CR that it created": {
			nil, nil, false, true, wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"that, after a user changed it": {
			nil, nil, false, true,
			append(wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
				wrote("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "")...),
		},
		"a default CR that another module adopted": {
			map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other"}, nil, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"that, left in place by another module": {
			nil, map[string]string{v1beta2.LabelModuleName: "other"}, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, ""),
		},
		"a user's with a status of lifecycle-manager": {
			nil, nil, false, false,
			wrote("resource.kyma-project.io/finalizer", metav1.ManagedFieldsOperationUpdate, "status"),
		},
		"a user's with fields that it applied": {
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
