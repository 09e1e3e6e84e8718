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

// secretNamePattern and secretNamespacePattern match the StorageClass parameters that contain the name or namespace of
// a Secret, such as csi.storage.k8s.io/node-publish-secret-name.
var (
	secretNamePattern      = regexp.MustCompile(`(?i)secret-?name$`)
	secretNamespacePattern = regexp.MustCompile(`(?i)secret-?namespace$`)
)

// findAgentSecret returns the name of an agent Secret that a field anywhere in value refers to, or "" if no field does.
// A reference without a namespace is resolved in the given namespace.
func findAgentSecret(value any, namespace, agentNamespace string) string {
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			if name := referencedSecret(field, inner, v, namespace, agentNamespace); name != "" {
				return name
			}
			if name := findAgentSecret(inner, namespace, agentNamespace); name != "" {
				return name
			}
		}
	case []any:
		for _, inner := range v {
			if name := findAgentSecret(inner, namespace, agentNamespace); name != "" {
				return name
			}
		}
	}
	return ""
}

// referencedSecret returns the name of the agent's Secret that an object's field refers to, or "" for other fields. The
// parameter siblings contains all fields in the same map.
func referencedSecret(field string, value any, siblings map[string]any, namespace, agentNamespace string) string {
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
		if isAgentName(name) && cmp.Or(there, namespace) == agentNamespace {
			return name
		}
	}
	return ""
}

// harmlessTemplates are the templates that a storage driver cannot expand to the name of an agent Secret.
var harmlessTemplates = []string{"${pvc.name}", "${pv.name}"}

// storageGroups are the API groups with the cluster-scoped objects that storage drivers read.
var storageGroups = []string{
	storageGroup, "snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io", "objectstorage.k8s.io",
}

// checkSecretReference refuses storage objects that would pass one of the agent's Secrets to a storage driver. The
// reference can be in a volume's specification, in parameters, or in annotations that name the Secret for deleting a
// volume or snapshot.
func checkSecretReference(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	isVolume := k.isAny(volumeKind)
	if k.Namespace != "" || !isVolume && !slices.Contains(storageGroups, k.Group) {
		return ""
	}
	var path []string
	switch {
	case isVolume:
		path = []string{"spec"}
	case k.isAny(attachmentKind):
		path = []string{"spec", "source", "inlineVolumeSpec"}
	}
	if path != nil {
		spec, _, _ := unstructured.NestedMap(o.Object, path...)
		claim, _, _ := unstructured.NestedString(spec, "claimRef", "namespace")
		if secret := findAgentSecret(spec, cmp.Or(claim, agentNamespace), agentNamespace); secret != "" {
			return fmt.Sprintf("%s would give its driver access to Secret %s of the agent", strings.Join(path, "."),
				secret)
		}
	}
	for _, path := range [][]string{{"parameters"}, {"metadata", "annotations"}} {
		settings, _, _ := unstructured.NestedMap(o.Object, path...)
		if parameter := secretParameter(settings, agentNamespace); parameter != "" {
			return fmt.Sprintf("%s.%s would give its driver access to a Secret of the agent", strings.Join(path, "."),
				parameter)
		}
	}
	return ""
}

// secretParameter returns a storage object's parameter that names an agent Secret, or contains a template that a
// storage driver can expand to such a name. It returns "" if no parameter does.
func secretParameter(parameters map[string]any, agentNamespace string) string {
	reaches := false
	for parameter, value := range parameters {
		namespace, _ := value.(string)
		reaches = reaches ||
			secretNamespacePattern.MatchString(parameter) && (namespace == agentNamespace || strings.Contains(namespace, "${"))
	}
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		name, _ := parameters[parameter].(string)
		open := strings.Contains(name, "${") && !slices.Contains(harmlessTemplates, name)
		if reaches && secretNamePattern.MatchString(parameter) && (isAgentName(name) || open) {
			return parameter
		}
	}
	return ""
}

// checkSealedSecret refuses Secrets with LabelSealed. This label marks the Secrets that the agent writes for the
// control plane, so the agent would replace the data in the module's Secret.
func checkSealedSecret(o *unstructured.Unstructured, _ string) string {
	_, sealed := o.GetLabels()[v1beta2.LabelSealed]
	if sealed && KeyOf(o).GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return "label " + v1beta2.LabelSealed + " marks Secrets from the control plane"
	}
	return ""
}
