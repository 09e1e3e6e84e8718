package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// checkIdentityFields returns an error if one of the fields that identify an object has the wrong type or a name with
// different capitalization.
func checkIdentityFields(object map[string]any) error {
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		value, found := object[field]
		if !found {
			if err := checkSpelling(object, "", field); err != nil {
				return err
			}
			continue
		}
		_, isText := value.(string)
		metadata, isMap := value.(map[string]any)
		switch {
		case field != "metadata" && !isText && value != nil:
			return fmt.Errorf("field %s is %v, but must be a string: put it in quotes", field, value)
		case field == "metadata" && !isMap && value != nil:
			return fmt.Errorf("field metadata must be a mapping that sets metadata.name")
		case isMap && metadata["name"] == nil:
			if err := checkSpelling(metadata, "metadata.", "name"); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSpelling returns an error if a mapping has a field whose name differs from the wanted name only in case.
func checkSpelling(object map[string]any, path, wanted string) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if name != wanted && strings.EqualFold(name, wanted) {
			return fmt.Errorf("field %s%s must be spelled %s%s", path, name, path, wanted)
		}
	}
	return nil
}

// correctKind returns the built-in kind that a misspelled kind means, such as ConfigMap for configmap or configmaps. It
// returns "" if no kind matches.
func correctKind(gvk schema.GroupVersionKind) string {
	if scheme.Scheme.Recognizes(gvk) {
		return ""
	}
	wanted, known := strings.ToLower(gvk.Kind), slices.Sorted(maps.Keys(scheme.Scheme.KnownTypes(gvk.GroupVersion())))
	if kind := serverKinds[gvk.Group]; kind != "" && kind != gvk.Kind {
		known = append(known, kind)
	}
	for _, kind := range known {
		plural, singular := meta.UnsafeGuessKindToResource(gvk.GroupVersion().WithKind(kind))
		if wanted == singular.Resource || wanted == plural.Resource {
			return kind
		}
	}
	return ""
}

// serverKinds contains built-in kinds that are not in client-go's scheme.
var serverKinds = map[string]string{
	"apiextensions.k8s.io": "CustomResourceDefinition", "apiregistration.k8s.io": "APIService",
}
