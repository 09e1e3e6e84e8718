package images

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/render"
)

// pullSecretVariable is the environment variable that passes the name of the pull Secret to an operator. The operator
// adds the pull Secret to the Pods that it creates.
//
// Source: lifecycle-manager, flag --skr-image-pull-secret.
const pullSecretVariable = "SKR_IMG_PULL_SECRET"

// AddPullSecret adds a Secret to imagePullSecrets in all Pods and pod templates. If isOperator returns true for a
// workload, the workload also gets the Secret's name in pullSecretVariable. AddPullSecret returns an error if an
// operator already has this variable.
func AddPullSecret(
	objects []*unstructured.Unstructured, secret string, isOperator func(*unstructured.Unstructured) bool,
) error {
	for _, o := range objects {
		kind := o.GroupVersionKind().Group + "/" + o.GetKind()
		path, ok := podPaths[kind]
		if !ok {
			continue
		}
		pod := nestedMap(o.Object, path)
		if pod == nil {
			continue
		}
		addPullSecret(pod, secret)
		if kind != "apps/Deployment" && kind != "apps/StatefulSet" || !isOperator(o) {
			continue
		}
		if err := addVariable(pod, secret); err != nil {
			return fmt.Errorf("%s: %s.%w", render.Name(o), path, err)
		}
	}
	return nil
}

// nestedMap returns the map at a path of names, or nil if it does not exist.
func nestedMap(tree map[string]any, path string) map[string]any {
	for step := range strings.SplitSeq(path, ".") {
		tree, _ = tree[step].(map[string]any)
	}
	return tree
}

func addPullSecret(pod map[string]any, secret string) {
	named, isList := pod["imagePullSecrets"].([]any)
	if !isList && pod["imagePullSecrets"] != nil {
		return
	}
	if slices.ContainsFunc(named, func(entry any) bool { return entryName(entry) == secret }) {
		return
	}
	pod["imagePullSecrets"] = append(named, map[string]any{"name": secret})
}

func addVariable(pod map[string]any, secret string) error {
	containers, _ := pod["containers"].([]any)
	for n, entry := range containers {
		container, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		env, isList := container["env"].([]any)
		if !isList && container["env"] != nil {
			continue
		}
		if slices.ContainsFunc(env, func(entry any) bool { return entryName(entry) == pullSecretVariable }) {
			return fmt.Errorf(
				"containers[%d].env: %s already exists, but the setting imagePullSecret must set it: remove it "+
					"from the module",
				n, pullSecretVariable)
		}
		container["env"] = append(env, map[string]any{"name": pullSecretVariable, "value": secret})
	}
	return nil
}

func entryName(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
