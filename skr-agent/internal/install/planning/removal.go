package planning

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// RemovalStages divides the objects into stages for the removal. All objects in a stage must be deleted before the next
// stage: webhooks; custom resources, whose finalizers need the operator; workloads and other objects; CRDs; RBAC;
// namespaces.
func RemovalStages(inventory []v1beta2.Resource) [][]v1beta2.Resource {
	stages := make([][]v1beta2.Resource, 6)
	for _, r := range inventory {
		i := removalStage(r)
		stages[i] = append(stages[i], r)
	}
	return slices.DeleteFunc(stages, func(s []v1beta2.Resource) bool { return len(s) == 0 })
}

func removalStage(r v1beta2.Resource) int {
	gk := schema.GroupKind{Group: r.Group, Kind: r.Kind}
	switch {
	case guard.IsCRD(gk):
		return 3
	case guard.IsNamespace(gk):
		return 5
	case r.Group == "admissionregistration.k8s.io":
		return 0
	case r.Group == "rbac.authorization.k8s.io", gk == schema.GroupKind{Kind: "ServiceAccount"}:
		return 4
	case guard.IsCustomGroup(r.Group):
		return 1
	}
	return 2
}
