package planning

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// firstKinds and lastKinds define the order of objects within a stage: first firstKinds, then all other kinds, then
// lastKinds.
//
// Source: fluxcd/pkg/ssa, ReconcileOrder.
var (
	firstKinds = []string{
		"CustomResourceDefinition", "Namespace", "ClusterRole", "ClusterClass", "RuntimeClass", "PriorityClass",
		"StorageClass", "VolumeSnapshotClass", "IngressClass", "GatewayClass", "ClusterRoleBinding", "ResourceQuota",
		"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Secret", "Service", "LimitRange", "Deployment",
		"StatefulSet", "CronJob", "PodDisruptionBudget",
	}
	lastKinds = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)

func rank(kind string) int {
	if n := slices.Index(firstKinds, kind); n >= 0 {
		return n - len(firstKinds)
	}
	return slices.Index(lastKinds, kind) + 1
}

func rankOf(kind string, phase int) int {
	if phase < 0 {
		kind = "Deployment"
	}
	return rank(kind)
}

// sortForApply sorts a stage's objects. A chart's hook Jobs come directly before the Deployments if they run before the
// installation. If they run after the installation, they come after the kinds that neither firstKinds nor lastKinds
// contains.
func sortForApply(stage []*unstructured.Unstructured) {
	slices.SortStableFunc(stage, func(a, b *unstructured.Unstructured) int {
		first, second := guard.KeyOf(a), guard.KeyOf(b)
		phaseA, weightA := render.HookOrder(a)
		phaseB, weightB := render.HookOrder(b)
		return cmp.Or(cmp.Compare(rankOf(first.Kind, phaseA), rankOf(second.Kind, phaseB)), cmp.Compare(phaseA, phaseB),
			cmp.Compare(weightA, weightB), cmp.Compare(first.Group, second.Group),
			cmp.Compare(first.Kind, second.Kind), cmp.Compare(first.Namespace, second.Namespace),
			cmp.Compare(first.Name, second.Name))
	})
}
