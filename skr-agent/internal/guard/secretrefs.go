package guard

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Parameters of storage classes that name Secrets and their namespaces, such as
// csi.storage.k8s.io/node-publish-secret-name and adminSecretName.
var (
	secretName      = regexp.MustCompile(`(?i)secret-?name$`)
	secretNamespace = regexp.MustCompile(`(?i)secret-?namespace$`)
)

// secretIn returns a Secret of the agent that a field names; empty if none does. It walks through all fields instead of
// objects of known kinds, so that a volume type of a later Kubernetes counts as well. References without a namespace
// are read in the given one.
func secretIn(value any, namespace, home string) string {
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			if name := secretOf(field, inner, v, namespace, home); name != "" {
				return name
			}
			if name := secretIn(inner, namespace, home); name != "" {
				return name
			}
		}
	case []any:
		for _, inner := range v {
			if name := secretIn(inner, namespace, home); name != "" {
				return name
			}
		}
	}
	return ""
}

// secretOf returns the agent's Secret that one field names, which is in a map with others.
func secretOf(field string, value any, beside map[string]any, namespace, home string) string {
	var references []any
	switch lower := strings.ToLower(field); {
	case lower == "secretname":
		other, _ := beside["secretNamespace"].(string)
		references = []any{map[string]any{"name": value, "namespace": other}}
	case lower == "secret", strings.HasSuffix(lower, "secretref"), lower == "secretkeyref":
		references = []any{value}
	case lower == "imagepullsecrets", lower == "secrets":
		references, _ = value.([]any)
	}
	for _, reference := range references {
		r, _ := reference.(map[string]any)
		name, _ := r["name"].(string)
		there, _ := r["namespace"].(string)
		if isAgents(name) && cmp.Or(there, namespace) == home {
			return name
		}
	}
	return ""
}

// hands finds objects of storage that would hand a Secret of the agent to a driver. The driver gets it from the
// kubelet or a controller, and needs no right to Secrets.
func hands(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	switch {
	case k.Group == "" && k.Kind == "PersistentVolume":
		claim, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "namespace")
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if secret := secretIn(spec, cmp.Or(claim, home), home); secret != "" {
			return fmt.Sprintf("spec would give its driver Secret %s of the agent", secret)
		}
	case strings.HasSuffix(k.Group, "storage.k8s.io") && strings.HasSuffix(k.Kind, "Class"):
		parameters, _, _ := unstructured.NestedMap(o.Object, "parameters")
		return secretParameter(parameters, home)
	}
	return ""
}

// secretParameter finds parameters of a storage class that name a Secret of the agent, or can become its name when a
// driver fills in a template. The names of claims and volumes cannot: no module and no tenant may create one with a
// name of the agent's.
func secretParameter(parameters map[string]any, home string) string {
	reaches := false
	for parameter, value := range parameters {
		namespace, _ := value.(string)
		reaches = reaches ||
			secretNamespace.MatchString(parameter) && (namespace == home || strings.Contains(namespace, "${"))
	}
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		name, _ := parameters[parameter].(string)
		open := strings.Contains(name, "${") && name != "${pvc.name}" && name != "${pv.name}"
		if reaches && secretName.MatchString(parameter) && (isAgents(name) || open) {
			return fmt.Sprintf("parameters.%s would give its driver a Secret of the agent", parameter)
		}
	}
	return ""
}
