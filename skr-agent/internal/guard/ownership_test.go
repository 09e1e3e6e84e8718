package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestOwners(t *testing.T) {
	by := Owner{Mark: "kyma-system/keda", Module: "keda", Component: "keda-manager", Namespace: home}
	for name, c := range map[string]struct {
		annotations, labels map[string]string
		owned, asDefaultCR  bool
	}{
		"somebody's":                               {nil, nil, false, false},
		"its own":                                  {map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/keda"}, nil, true, true},
		"another module's":                         {map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other"}, nil, false, false},
		"handed over to it":                        {map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, true},
		"handed over to another":                   {map[string]string{v1beta2.AnnotationAdopt: "kyma-system/keda-2"}, nil, false, false},
		"another's, and handed on":                 {map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/other", v1beta2.AnnotationAdopt: "kyma-system/keda"}, nil, true, false},
		"left in place by it":                      {nil, map[string]string{v1beta2.LabelModuleName: "keda"}, true, true},
		"left in place by another":                 {nil, map[string]string{v1beta2.LabelModuleName: "other", v1beta2.LabelManagedBy: "kyma"}, false, false},
		"lifecycle-manager's":                      {map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"}, map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true},
		"lifecycle-manager's by its mark of today": {map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123"}, map[string]string{v1beta2.LabelManagedBy: "kyma"}, true, true},
		"that, for another module":                 {map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-istio-123"}, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false},
		"that, and another module's here since":    {map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/default-keda-123", v1beta2.AnnotationOwnedBy: "kyma-system/other"}, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false},
		"an older one's":                           {map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-manager-123"}, map[string]string{v1beta2.LabelManagedBy: "declarative-v2"}, true, true},
		"of its for another module":                {map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-kedas-123"}, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, false},
		"such a mark and no label":                 {map[string]string{v1beta2.AnnotationOwnedBy: "kcp-system/default-keda-123"}, nil, false, false},
		"a default CR of its":                      {nil, map[string]string{v1beta2.LabelManagedBy: "kyma"}, false, true},
		"a label of another tool":                  {nil, map[string]string{v1beta2.LabelManagedBy: "helm"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations, Labels: c.labels}}
			require.Equal(t, c.owned, by.Owns(o))
			require.Equal(t, c.asDefaultCR, by.OwnsDefaultCR(o))
		})
	}
}
