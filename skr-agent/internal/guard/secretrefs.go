package guard

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// secretName and secretNamespace match the parameters of StorageClasses that contain the name or namespace of a Secret,
// such as csi.storage.k8s.io/node-publish-secret-name.
var (
	secretName      = regexp.MustCompile(`(?i)secret-?name$`)
	secretNamespace = regexp.MustCompile(`(?i)secret-?namespace$`)
)

// secretIn returns the name of a Secret of the agent that a field anywhere in value refers to, or "" if no field does.
// A reference without a namespace is resolved in the given namespace. home is the agent's namespace.
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

// secretOf returns the name of the agent's Secret that a field of an object refers to, or "" for other fields. siblings
// contains the fields of the same map. home is the agent's namespace.
func secretOf(field string, value any, siblings map[string]any, namespace, home string) string {
	var references []any
	switch lower := strings.ToLower(field); {
	case lower == "secretname":
		other, _ := siblings["secretNamespace"].(string)
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

// checkSecretReference refuses storage objects that would pass one of the agent's Secrets to a storage driver.
func checkSecretReference(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	switch {
	case k.Group == "" && k.Kind == "PersistentVolume":
		claim, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "namespace")
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if secret := secretIn(spec, cmp.Or(claim, home), home); secret != "" {
			return fmt.Sprintf("spec would give its driver access to Secret %s of the agent", secret)
		}
	case strings.HasSuffix(k.Group, "storage.k8s.io") && strings.HasSuffix(k.Kind, "Class"):
		parameters, _, _ := unstructured.NestedMap(o.Object, "parameters")
		return secretParameter(parameters, home)
	}
	return ""
}

// secretParameter refuses parameters of a StorageClass that name a Secret of the agent. It also refuses a template that
// a storage driver can expand to such a name.
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
			return fmt.Sprintf("parameters.%s would give its driver access to a Secret of the agent", parameter)
		}
	}
	return ""
}

// checkSealedSecret refuses Secrets with the label of Secrets that come from the control plane. The agent would write
// data of the control plane into a module's Secret.
func checkSealedSecret(o *unstructured.Unstructured, _ string) string {
	_, sealed := o.GetLabels()[v1beta2.LabelSealed]
	if sealed && KeyOf(o).GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return "label " + v1beta2.LabelSealed + " marks Secrets from the control plane"
	}
	return ""
}
