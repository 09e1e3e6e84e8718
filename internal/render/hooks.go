package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	keepAnnotation   = "helm.sh/resource-policy"
)

// KeepsOnRemoval reports whether an object has the annotation helm.sh/resource-policy: keep, so it must not be deleted
// with its module.
func KeepsOnRemoval(object metav1.Object) bool {
	return strings.ToLower(strings.TrimSpace(object.GetAnnotations()[keepAnnotation])) == "keep"
}

// orderedObjects contains a chart's objects in Helm's creation order.
type orderedObjects struct{ definitions, before, release, after []placedObject }

// withoutHooks converts hooks to ordinary objects, because an agent reconciles continuously and has no install
// phases:
//
//   - Hooks for tests and rollbacks are omitted.
//
//   - Objects with hook crd-install, which Helm 2 used instead of the crds folder, are first.
//
//   - Jobs with install hooks become ordinary Jobs before or after the release's objects, ordered by weight. They run
//     once for each version that changes them. The agent recreates these Jobs to run them again.
//
//   - Pods, and Jobs with hooks for only upgrades or for deletion, are refused. The agent would run them at the wrong
//     time.
//
//   - Any other object with install or upgrade hooks becomes an ordinary object.
//
// Source: Helm documentation, Chart Hooks.
func withoutHooks(objects []placedObject) (orderedObjects, error) {
	var found orderedObjects
	for _, o := range objects {
		annotation, isHook := o.object.GetAnnotations()[hookAnnotation]
		if !isHook {
			found.release = append(found.release, o)
			continue
		}
		hooks := slices.DeleteFunc(hooksIn(annotation), isNeverRun)
		if len(hooks) == 0 {
			continue
		}
		if err := checkHooks(o.object, hooks); err != nil {
			return orderedObjects{}, fmt.Errorf("%s, %s: %w", o.place, Name(o.object), err)
		}
		if isJob(o.object) {
			allowRecreation(o.object)
		}
		switch {
		case slices.Contains(hooks, "crd-install"):
			found.definitions = append(found.definitions, o)
		case slices.ContainsFunc(hooks, isPre):
			found.before = append(found.before, o)
		default:
			found.after = append(found.after, o)
		}
	}
	slices.SortStableFunc(found.before, byWeight)
	slices.SortStableFunc(found.after, byWeight)
	slices.SortStableFunc(found.release, byKind)
	return found, nil
}

// allowRecreation annotates a Job so that the agent can recreate it. A Job's template is immutable.
func allowRecreation(job *unstructured.Unstructured) {
	annotations := job.GetAnnotations()
	if annotations[v1beta2.AnnotationRecreate] == "" {
		annotations[v1beta2.AnnotationRecreate] = v1beta2.True
		job.SetAnnotations(annotations)
	}
}

func isJob(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == "batch" && object.GetKind() == "Job"
}

// HookOrder returns the position of a chart's Job relative to the chart's other objects: a negative phase is before
// them, and a positive phase after them. Within a phase, Jobs with a lower weight are first. Other objects have
// phase 0.
func HookOrder(object *unstructured.Unstructured) (phase, weight int) {
	if !isJob(object) {
		return 0, 0
	}
	annotation, isHook := object.GetAnnotations()[hookAnnotation]
	if !isHook {
		return 0, 0
	}
	phase = 1
	if slices.ContainsFunc(hooksIn(annotation), isPre) {
		phase = -1
	}
	return phase, hookWeight(object)
}

func hooksIn(annotation string) []string {
	return strings.Split(strings.ToLower(strings.ReplaceAll(annotation, " ", "")), ",")
}

func hookWeight(object *unstructured.Unstructured) int {
	number, _ := strconv.Atoi(object.GetAnnotations()[weightAnnotation])
	return number
}

func isPre(hook string) bool { return strings.HasPrefix(hook, "pre-") }

// byWeight compares hooks by weight, then by kind, as Helm does.
func byWeight(a, b placedObject) int {
	return cmp.Or(cmp.Compare(hookWeight(a.object), hookWeight(b.object)), byKind(a, b))
}

// isNeverRun reports whether a hook is for tests or rollbacks.
func isNeverRun(hook string) bool {
	return slices.Contains([]string{"test", "test-success", "test-failure", "pre-rollback", "post-rollback"}, hook)
}

// isTest reports whether `helm test` creates the object. Helm 3 does not run Helm 2's hook test-failure.
func isTest(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(hooksIn(object.GetAnnotations()[hookAnnotation]), func(hook string) bool {
		return hook == "test" || hook == "test-success"
	})
}

func checkHooks(object *unstructured.Unstructured, hooks []string) error {
	kind, lasting, ofInstall := object.GetKind(), false, false
	for _, hook := range hooks {
		switch hook {
		case "pre-install", "post-install", "crd-install":
			lasting, ofInstall = true, true
		case "pre-upgrade", "post-upgrade":
			lasting = true
		case "pre-delete", "post-delete":
		default:
			return fmt.Errorf("unknown hook %q: correct annotation %s", hook, hookAnnotation)
		}
	}
	all := strings.Join(hooks, ",")
	if isPod := object.GroupVersionKind().Group == "" && kind == "Pod"; isPod || isJob(object) && !ofInstall {
		return fmt.Errorf(
			"the agent does not run a %s with hook %s: disable it in the values, make it a Job with hook pre-install "+
				"or post-install, or move its work to the module's operator", kind, all)
	}
	if isJob(object) && slices.ContainsFunc(hooks, isDelete) {
		return fmt.Errorf(
			"a Job with hook %s also runs at deletion, which the agent does not support: split it into two Jobs and "+
				"disable the Job for the deletion in the values", all)
	}
	if !lasting {
		return fmt.Errorf(
			"the agent does not create an object with only hook %s: disable the object in the values, or remove "+
				"annotation %s",
			all, hookAnnotation)
	}
	return nil
}

func isDelete(hook string) bool { return strings.HasSuffix(hook, "-delete") }

func byKind(a, b placedObject) int {
	kindA, kindB := a.object.GetKind(), b.object.GetKind()
	if rankA, rankB := installRanks[kindA], installRanks[kindB]; rankA != 0 || rankB != 0 {
		return cmp.Compare(rankA, rankB)
	}
	return cmp.Compare(kindA, kindB)
}

// installOrder contains the kinds that Helm applies first, in this order.
//
// Source: Helm's releaseutil.InstallOrder. Importing that package would link Helm's release code into the agent.
var installOrder = []string{
	"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy",
	"PodDisruptionBudget", "ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume",
	"PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding",
	"ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod",
	"ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob",
	"IngressClass", "Ingress", "APIService",
}

// installRanks contains a negative number for each kind in installOrder. Other kinds are applied last.
var installRanks = func() map[string]int {
	known := map[string]int{}
	for i, kind := range installOrder {
		known[kind] = i - len(installOrder)
	}
	return known
}()
