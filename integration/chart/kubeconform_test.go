package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// schemas converts the API server's OpenAPI schemas for kubeconform, with unknown fields forbidden.
type schemas struct {
	*testCluster
	dir   string
	paths map[string]openapi.GroupVersion
	// written records whether each kind has a schema. read caches the schema definitions by API path.
	written map[string]bool
	read    map[string]map[string]any
}

func newSchemas(g *testCluster) *schemas {
	g.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", g.kubeconfig)
	require.NoError(g, err)
	server, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(g, err)
	paths, err := server.OpenAPIV3().Paths()
	require.NoError(g, err)
	return &schemas{g, g.TempDir(), paths, map[string]bool{}, map[string]map[string]any{}}
}

// location returns the path template that kubeconform uses to find a kind's schema.
func (s *schemas) location() string {
	return filepath.Join(s.dir, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json")
}

// write writes the schema for an object's kind. It reports whether the API server has a schema.
func (s *schemas) write(o *unstructured.Unstructured) bool {
	s.Helper()
	group, version, found := strings.Cut(o.GetAPIVersion(), "/")
	path := "apis/" + o.GetAPIVersion()
	if !found {
		group, version, path = o.GetAPIVersion(), o.GetAPIVersion(), "api/"+o.GetAPIVersion()
	}
	name := fmt.Sprintf("%s_%s_%s.json", group, version, strings.ToLower(o.GetKind()))
	if written, known := s.written[name]; known {
		return written
	}
	definitions := s.definitions(path)
	for definition, schema := range definitions {
		kinds, _ := schema.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		if slices.ContainsFunc(kinds, func(kind any) bool {
			k := kind.(map[string]any)
			return k["kind"] == o.GetKind() &&
				strings.TrimPrefix(fmt.Sprint(k["group"], "/", k["version"]), "/") == o.GetAPIVersion()
		}) {
			data, err := json.Marshal(map[string]any{
				"$ref": "#/components/schemas/" + definition, "components": map[string]any{"schemas": definitions},
			})
			require.NoError(s, err)
			require.NoError(s, os.WriteFile(filepath.Join(s.dir, name), data, 0o600))
			s.written[name] = true
		}
	}
	return s.written[name]
}

func (s *schemas) definitions(path string) map[string]any {
	s.Helper()
	if s.paths[path] == nil || s.read[path] != nil {
		return s.read[path]
	}
	data, err := s.paths[path].Schema("application/json")
	require.NoError(s, err)
	var document struct {
		Components struct{ Schemas map[string]any }
	}
	require.NoError(s, json.Unmarshal(data, &document))
	for _, schema := range document.Components.Schemas {
		closeObjects(schema)
	}
	s.read[path] = document.Components.Schemas
	return s.read[path]
}

// closeObjects changes a schema so that it forbids fields that it does not list.
func closeObjects(of any) {
	schema, ok := of.(map[string]any)
	if !ok {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	if _, open := schema["additionalProperties"]; len(properties) > 0 && !open &&
		schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	for _, property := range properties {
		closeObjects(property)
	}
	closeObjects(schema["items"])
	closeObjects(schema["additionalProperties"])
	for _, several := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := schema[several].([]any)
		for _, one := range all {
			closeObjects(one)
		}
	}
}

// conform runs kubeconform on objects with the API server's schemas. It returns the number of checked objects and the
// errors. Kinds without a schema are skipped.
func (s *schemas) conform(objects map[string][]*unstructured.Unstructured) (judged int, faults []string) {
	s.Helper()
	files := s.TempDir()
	for name, all := range objects {
		var documents []string
		for _, o := range all {
			if s.write(o) {
				data, err := yaml.Marshal(o.Object)
				require.NoError(s, err)
				documents = append(documents, string(data))
			}
		}
		judged += len(documents)
		require.NoError(s,
			os.WriteFile(filepath.Join(files, name+".yaml"), []byte(strings.Join(documents, "---\n")), 0o600))
	}
	command := exec.CommandContext(s.Context(), "go", "tool", "-modfile=hack/tools/go.mod", "kubeconform", "-strict",
		"-output", "json", "-schema-location", s.location(), files)
	command.Dir = filepath.Join("..", "..")
	output, err := command.Output()
	var report struct {
		Resources []struct{ Filename, Kind, Name, Status, Msg string }
	}
	require.NoError(s, json.Unmarshal(output, &report), "%v: %s", err, output)
	for _, r := range report.Resources {
		faults = append(faults,
			fmt.Sprintf("%s: %s %s: %s: %s", filepath.Base(r.Filename), r.Kind, r.Name, r.Status, r.Msg))
	}
	return judged, faults
}

// conforms checks the charts' rendered objects with kubeconform.
func (g *testCluster) conforms() {
	g.Helper()
	s, rendered := newSchemas(g), map[string][]*unstructured.Unstructured{}
	for name, r := range cases(g.T) {
		rendered[name] = objectsOf(g.T, r)
	}
	judged, faults := s.conform(rendered)
	require.Empty(g, faults)
	require.Greater(g, judged, 50)
	strange := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"prots": []any{}},
	}}
	_, faults = s.conform(map[string][]*unstructured.Unstructured{"strange": {strange}})
	require.Len(g, faults, 1)
	require.Contains(g, faults[0], "prots")
}
