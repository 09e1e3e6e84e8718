package render

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	hookAnnotation = "helm.sh/hook"
	keepAnnotation = "helm.sh/resource-policy"
)

// Keeps reports whether a chart says of an object that it outlives the release: its annotation helm.sh/resource-policy
// is keep. Rendering leaves the annotation in place; the remover of objects asks here, of the object in the cluster,
// and lets it be.
func Keeps(object metav1.Object) bool {
	return strings.ToLower(strings.TrimSpace(object.GetAnnotations()[keepAnnotation])) == "keep"
}

// withoutHooks decides what becomes of objects that Helm would treat apart. An agent has no moments of install, upgrade
// and deletion: it brings what should be, again and again. So
//
//   - what Helm makes for tests and rollbacks is left out;
//   - crd-install, Helm 2's word for the crds folder, comes early;
//   - Jobs and Pods of an install, an upgrade or a deletion are refused: they would run never, or at every change and with
//     nothing waiting for them;
//   - anything else of an install or upgrade is an object like others, whatever its hook-weight and hook-delete-policy, and
//     keeps its annotations.
//
// Source: Helm documentation, Chart Hooks.
func withoutHooks(objects []placed) (early, rest []placed, err error) {
	for _, o := range objects {
		annotation, isHook := o.object.GetAnnotations()[hookAnnotation]
		if !isHook {
			rest = append(rest, o)
			continue
		}
		hooks := strings.Split(strings.ToLower(strings.ReplaceAll(annotation, " ", "")), ",")
		hooks = slices.DeleteFunc(hooks, isNeverRun)
		if len(hooks) == 0 {
			continue
		}
		if err := checkHooks(o.object, hooks); err != nil {
			return nil, nil, fmt.Errorf("%s, %s: %w", o.place, Name(o.object), err)
		}
		if slices.Contains(hooks, "crd-install") {
			early = append(early, o)
		} else {
			rest = append(rest, o)
		}
	}
	return early, rest, nil
}

// isNeverRun knows the hooks of what an agent never does.
func isNeverRun(hook string) bool {
	return slices.Contains([]string{"test", "test-success", "test-failure", "pre-rollback", "post-rollback"}, hook)
}

func checkHooks(object *unstructured.Unstructured, hooks []string) error {
	kind, lasting := object.GetKind(), false
	for _, hook := range hooks {
		switch hook {
		case "pre-install", "post-install", "pre-upgrade", "post-upgrade", "crd-install":
			lasting = true
		case "pre-delete", "post-delete":
		default:
			return fmt.Errorf("hook %q is not known: correct annotation %s", hook, hookAnnotation)
		}
	}
	group := object.GroupVersionKind().Group
	if group == "batch" && kind == "Job" || group == "" && kind == "Pod" {
		return fmt.Errorf("a %s of hook %s is not run by the agent: turn it off in the values, or let the module's operator do its work",
			kind, strings.Join(hooks, ","))
	}
	if !lasting {
		return fmt.Errorf("an object of hook %s only is never made by the agent: turn it off in the values, or remove annotation %s",
			strings.Join(hooks, ","), hookAnnotation)
	}
	return nil
}
