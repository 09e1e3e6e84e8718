package preflight

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Definition is one version of a CRD that a program requires, with its schema.
type Definition struct {
	CRD, Group, Version, Kind string
	schema                    map[string]any
}

// Definitions returns a Definition for each served version in the CRD files in dir.
func Definitions(files fs.FS, dir string) ([]Definition, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	var all []Definition
	for _, entry := range entries {
		data, err := fs.ReadFile(files, dir+"/"+entry.Name())
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served || version.Schema == nil {
				continue
			}
			d := Definition{CRD: crd.Name, Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			text, err := json.Marshal(version.Schema.OpenAPIV3Schema)
			if err == nil {
				err = json.Unmarshal(text, &d.schema)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", entry.Name(), err)
			}
			all = append(all, d)
		}
	}
	return all, nil
}

const maxSchemaDepth = 64

// MissingFields returns the paths of the definition's fields that are missing in document, the API server's OpenAPI
// document for the group and version. If the kind itself is missing, served is false.
func (d Definition) MissingFields(document []byte) (fields []string, served bool, err error) {
	var published struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, false, fmt.Errorf("decode the API server's OpenAPI document for %s/%s: %w", d.Group, d.Version, err)
	}
	for _, schema := range published.Components.Schemas {
		if d.definesKind(schema) {
			return missingFields(d.schema, schema, "", maxSchemaDepth), true, nil
		}
	}
	return nil, false, nil
}

// definesKind reports whether an OpenAPI schema is the schema of the definition's kind.
func (d Definition) definesKind(schema map[string]any) bool {
	kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(kinds, func(kind any) bool {
		k, _ := kind.(map[string]any)
		return k["group"] == d.Group && k["version"] == d.Version && k["kind"] == d.Kind
	})
}

// missingFields returns the paths of expected fields that are missing in actual. It does not compare types, because
// newer CRDs only add fields.
func missingFields(expected, actual map[string]any, path string, depth int) []string {
	if depth == 0 {
		return nil
	}
	var missing []string
	properties, _ := expected["properties"].(map[string]any)
	has, _ := actual["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		field, there := has[name].(map[string]any)
		if !there {
			missing = append(missing, path+"."+name)
			continue
		}
		wanted, _ := properties[name].(map[string]any)
		missing = append(missing, missingFields(wanted, field, path+"."+name, depth-1)...)
	}
	for key, mark := range map[string]string{"items": "[]", "additionalProperties": ".*"} {
		wanted, ok := expected[key].(map[string]any)
		if !ok {
			continue
		}
		nested, _ := actual[key].(map[string]any)
		missing = append(missing, missingFields(wanted, nested, path+mark, depth-1)...)
	}
	return missing
}

// shownFields limits the number of fields in a message.
const shownFields = 3

// ServedFinding returns the finding for the results of MissingFields. worst is the result for a missing
// kind or field.
func (d Definition) ServedFinding(served bool, lacks []string, worst Result, advice string) Finding {
	check := fmt.Sprintf("definition %s, %s", d.CRD, d.Version)
	switch {
	case !served:
		return Finding{check, worst, "the API server does not serve this kind", advice}
	case len(lacks) > 0:
		text := strings.Join(lacks[:min(len(lacks), shownFields)], ", ")
		if more := len(lacks) - shownFields; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return Finding{check, worst, "the definition is older than this program, missing fields: " + text, advice}
	}
	return newPassed(check, "the definition has all fields that this program uses")
}
