package v1beta2_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const (
	realworld = "../../../../shared/realworld"
	crds      = "../../../charts/kcp-publisher/files/crds"
)

func needRealworld(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("needs the folder shared/realworld next to this checkout")
	}
}

var plurals = []string{"kymas", "manifests", "modulereleasemetas", "moduletemplates", "watchers"}

var update = flag.Bool("update", false, "write the shapes of Kyma's CRDs from shared/realworld to testdata")

// shapeFile returns the path of the recorded shape of a CRD: its schema without descriptions.
func shapeFile(plural string) string { return filepath.Join("testdata", "kyma-crds", plural+".json") }

func TestCRDsMatchLifecycleManager(t *testing.T) {
	for _, plural := range plurals {
		t.Run(plural, func(t *testing.T) {
			file := filepath.Join(crds, v1beta2.Group+"_"+plural+".yaml")
			for _, version := range []string{"v1beta1", "v1beta2"} {
				if version == "v1beta1" && plural == "modulereleasemetas" {
					continue // introduced with v1beta2
				}
				theirs, ours := readCRD(t, shapeFile(plural), version), readCRD(t, file, version)
				for _, d := range differences(version, theirs.version,
					withoutDisplay(theirs.version, shape(ours.version, false))) {
					t.Error(d)
				}
			}
			theirs, ours := readCRD(t, shapeFile(plural), "v1beta2"), readCRD(t, file, "v1beta2")
			for _, field := range []string{"group", "names", "scope"} {
				for _, d := range differences(field, theirs.spec[field],
					withoutDisplay(theirs.spec[field], ours.spec[field])) {
					t.Error(d)
				}
			}
		})
	}
}

// withoutDisplay returns this project's CRD without the columns, short names, categories and selectable fields that it
// adds to Kyma's CRD. Entries that Kyma's CRD has must also exist in this project's CRD.
func withoutDisplay(theirs, ours any) any {
	is, whole := ours.(map[string]any)
	has, _ := theirs.(map[string]any)
	if !whole {
		return ours
	}
	kept := maps.Clone(is)
	for _, field := range []string{"additionalPrinterColumns", "shortNames", "categories", "selectableFields"} {
		known, _ := has[field].([]any)
		own, _ := is[field].([]any)
		own = slices.DeleteFunc(slices.Clone(own), func(value any) bool {
			return !slices.ContainsFunc(known, func(k any) bool { return reflect.DeepEqual(k, value) })
		})
		if delete(kept, field); len(own) > 0 {
			kept[field] = own
		}
	}
	return kept
}

func TestComparisonFindsAMissingPrinterColumn(t *testing.T) {
	column := func(name string) any { return map[string]any{"name": name} }
	theirs := map[string]any{"additionalPrinterColumns": []any{column("State"), column("Age")}}
	for want, ours := range map[string][]any{
		"":                                 {column("State"), column("Channel"), column("Age"), column("Message")},
		"version.additionalPrinterColumns": {column("State"), column("Channel")},
	} {
		got := strings.Join(differences("version", theirs,
			withoutDisplay(theirs, map[string]any{"additionalPrinterColumns": ours})), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The shapes in testdata come from lifecycle-manager's config/crd/bases at commit c5b83f1b5.
func TestRecordedSchemasMatchLifecycleManagerCRDs(t *testing.T) {
	needRealworld(t)
	for _, plural := range plurals {
		whole := readCRD(t, filepath.Join(realworld, "crds", v1beta2.Group+"_"+plural+".yaml"), "v1beta2")
		want, err := json.Marshal(map[string]any{"spec": shape(whole.spec, false)})
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(shapeFile(plural), append(want, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := os.ReadFile(shapeFile(plural)); err != nil || strings.TrimSpace(string(is)) != string(want) {
			t.Errorf("%s differs from Kyma's CRD (%v): run go test ./apis/operator/v1beta2 -run Shapes -update",
				shapeFile(plural), err)
		}
	}
}

// shape returns a schema, or part of one, without descriptions. named is true if the keys in of are property names
// instead of schema keywords.
func shape(of any, named bool) any {
	switch of := of.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, value := range of {
			if named || key != "description" && key != "message" {
				kept[key] = shape(value, key == "properties" && !named)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(of))
		for i := range of {
			kept[i] = shape(of[i], false)
		}
		return kept
	}
	return of
}

// Each of these differences would break a Kyma user, so the comparison must find it.
func TestSchemaComparisonFindsDifferences(t *testing.T) {
	schema := func() map[string]any {
		return map[string]any{
			"type": "object", "description": "theirs", "required": []any{"name"},
			"properties": map[string]any{"name": map[string]any{"type": "string", "pattern": "^[a-z]+$"}},
		}
	}
	property := func(s map[string]any) map[string]any {
		return s["properties"].(map[string]any)["name"].(map[string]any)
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"unchanged schema":    {func(map[string]any) {}, ""},
		"changed description": {func(s map[string]any) { s["description"] = "ours" }, ""},
		"added property": {
			func(s map[string]any) { s["properties"].(map[string]any)["more"] = map[string]any{} }, "",
		},
		"schema with a new required property": {
			func(s map[string]any) { s["required"] = []any{"more", "name"} }, "schema.required",
		},
		"missing property": {
			func(s map[string]any) {
				delete(s["properties"].(map[string]any), "name")
			}, "schema.properties.name: missing",
		},
		"added validation": {
			func(s map[string]any) {
				property(s)["maxLength"] = 3.0
			}, "schema.properties.name.maxLength: not in Kyma's schema",
		},
		"missing validation": {
			func(s map[string]any) { delete(property(s), "pattern") }, "schema.properties.name.pattern: missing",
		},
		"changed pattern": {
			func(s map[string]any) { property(s)["pattern"] = "^[a-z]*$" }, "schema.properties.name.pattern",
		},
		"changed type": {
			func(s map[string]any) { property(s)["type"] = "integer" }, "schema.properties.name.type",
		},
		"schema that refuses unknown fields": {
			func(s map[string]any) {
				s["additionalProperties"] = false
			}, "schema.additionalProperties: not in Kyma's schema",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours := schema()
			c.change(ours)
			got := strings.Join(differences("schema", schema(), ours), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

type crd struct{ spec, version map[string]any }

func readCRD(t *testing.T, path, wanted string) crd {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	versions, _ := object.Spec["versions"].([]any)
	for _, v := range versions {
		if version, _ := v.(map[string]any); version["name"] == wanted {
			return crd{object.Spec, version}
		}
	}
	t.Fatalf("%s has no version %s in spec.versions", path, wanted)
	return crd{}
}

// differences compares the schemas theirs and ours. It ignores descriptions and added properties, but reports an added
// required property, because it compares lists as a whole.
func differences(path string, theirs, ours any) []string {
	a, ok := theirs.(map[string]any)
	b, same := ours.(map[string]any)
	if !ok || !same {
		if reflect.DeepEqual(theirs, ours) {
			return nil
		}
		return []string{fmt.Sprintf("%s: got %v, want %v", path, ours, theirs)}
	}
	// A property can itself be named "description" or "properties", so names reports whether the key is a property
	// name.
	parts := strings.Split(path, ".")
	names := parts[len(parts)-1] == "properties" && (len(parts) < 2 || parts[len(parts)-2] != "properties")
	var found []string
	for key := range a {
		value, has := b[key]
		switch {
		case key == "description" && !names:
		case !has:
			found = append(found, path+"."+key+": missing")
		default:
			found = append(found, differences(path+"."+key, a[key], value)...)
		}
	}
	for key := range b {
		if _, has := a[key]; !has && !names && key != "description" {
			found = append(found, path+"."+key+": not in Kyma's schema")
		}
	}
	slices.Sort(found)
	return found
}

func TestBothChartsContainTheSameCRDs(t *testing.T) {
	for _, plural := range plurals {
		file := v1beta2.Group + "_" + plural + ".yaml"
		runtimes, err := os.ReadFile(filepath.Join(crds, "../../../skr-agent/crds", file))
		if plural == "watchers" { // Watchers exist only in the control plane
			if !os.IsNotExist(err) {
				t.Errorf("the agent's chart contains %s, but Watchers must exist only in the control plane", file)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if control, err := os.ReadFile(filepath.Join(crds, file)); err != nil || string(control) != string(runtimes) {
			t.Errorf("%s differs between the charts (%v): run make generate", file, err)
		}
	}
}

func TestKymaCatalogObjectsSurviveRoundTrip(t *testing.T) {
	needRealworld(t)
	files, err := filepath.Glob(filepath.Join(realworld, "catalog", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got no catalog files, error %v, want at least one", err)
	}
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var meta runtime.TypeMeta
			var before map[string]any
			if err := yaml.Unmarshal(data, &meta); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(data, &before); err != nil {
				t.Fatal(err)
			}
			object, err := scheme.New(meta.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(data, object); err != nil {
				t.Fatal(err)
			}
			encoded, err := yaml.Marshal(object.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			var after map[string]any
			if err := yaml.Unmarshal(encoded, &after); err != nil {
				t.Fatal(err)
			}
			for _, lost := range losses("", before, after) {
				t.Error(lost)
			}
		})
	}
}

// losses lists the values in before that are missing in after. It ignores fields with a zero value.
func losses(path string, before, after any) []string {
	if value := reflect.ValueOf(before); !value.IsValid() || value.IsZero() && after == nil {
		return nil
	}
	a, ok := before.(map[string]any)
	if !ok {
		if reflect.DeepEqual(before, after) {
			return nil
		}
		return []string{fmt.Sprintf("%s: got %v, want %v", path, after, before)}
	}
	b, _ := after.(map[string]any)
	var lost []string
	for key, value := range a {
		lost = append(lost, losses(path+"."+key, value, b[key])...)
	}
	return lost
}
