package crdschema

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
)

func TestEachCRDInTheChartHasASchema(t *testing.T) {
	files, err := charts.PublisherCRDs.ReadDir(strings.TrimSuffix(folder, "/"))
	if err != nil || len(files) != len(schemas) {
		t.Fatalf("got %d CRD files and %d schemas, error %v", len(files), len(schemas), err)
	}
	for _, file := range files {
		data, err := charts.PublisherCRDs.ReadFile(folder + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		if schema, err := SchemaOf(crd.Spec.Names.Kind); err != nil || schema == nil {
			t.Errorf("CRD file %s: got schema %v and error %v", file.Name(), schema, err)
		}
	}
	if _, err := SchemaOf("ConfigMap"); err == nil {
		t.Error("got a schema for ConfigMap, which the chart does not define")
	}
}

func TestSchemaProblemsNameTheField(t *testing.T) {
	policies, err := SchemaOf("RolloutPolicy")
	if err != nil {
		t.Fatal(err)
	}
	wave := func(fields map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"waves": []any{fields}}}
	}
	for name, c := range map[string]struct {
		object map[string]any
		want   string
	}{
		"valid wave": {wave(map[string]any{"name": "all", "percent": int64(100)}), ""},
		"value with the wrong type": {
			wave(map[string]any{"name": int64(3), "percent": int64(100)}),
			"spec.waves[0].name: must be of type string: \"integer\"",
		},
		"missing required field": {wave(map[string]any{"percent": int64(100)}), "spec.waves[0].name: is required"},
		"violated CEL rule": {
			wave(map[string]any{"name": "all"}),
			"spec.waves[0]: exactly one of selector, percent and count is required",
		},
		"value that is too long": {
			wave(map[string]any{"name": strings.Repeat("A", 9000), "percent": int64(100)}), "spec.waves[0].name: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policies.Default(c.object)
			got := policies.Validate(c.object)
			if c.want == "" && len(got) > 0 || c.want != "" &&
				(len(got) == 0 || !strings.HasPrefix(got[0].Error(), c.want) || len(got[0].Error()) > 512) {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
