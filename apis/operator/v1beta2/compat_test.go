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
		t.Skip("shared/realworld is not beside this checkout")
	}
}

var plurals = []string{"kymas", "manifests", "modulereleasemetas", "moduletemplates", "watchers"}

var update = flag.Bool("update", false, "write the shapes of Kyma's definitions from shared/realworld")

// shapeFile returns the path of the shape of one of Kyma's CRDs: its schema without descriptions.
func shapeFile(plural string) string { return filepath.Join("testdata", "kyma-crds", plural+".json") }

func TestCRDsAcceptAllObjectsOfLifecycleManager(t *testing.T) {
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

// withoutDisplay returns ours without additions for display and selection: columns, short names, categories and
// selectable fields. Those of Kyma must be present.
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

func TestKymaColumnsAreRequired(t *testing.T) {
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

// The shapes in testdata are from lifecycle-manager's config/crd/bases at commit c5b83f1b5.
func TestShapesMatchLifecycleManager(t *testing.T) {
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
			t.Errorf("%s differs from Kyma's definition (%v): run go test ./apis/operator/v1beta2 -run Shapes -update",
				shapeFile(plural), err)
		}
	}
}

// shape returns a schema, or a part of one, without descriptions. named is true if its keys are property names, not
// keywords.
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

// The comparison must be able to fail: each of these differences would break a user of Kyma.
func TestComparisonFindsEveryKindOfDifference(t *testing.T) {
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
		"nothing":             {func(map[string]any) {}, ""},
		"another description": {func(s map[string]any) { s["description"] = "ours" }, ""},
		"an added property": {
			func(s map[string]any) { s["properties"].(map[string]any)["more"] = map[string]any{} }, "",
		},
		"an added requirement": {func(s map[string]any) { s["required"] = []any{"more", "name"} }, "schema.required"},
		"a lost property": {
			func(s map[string]any) {
				delete(s["properties"].(map[string]any), "name")
			}, "schema.properties.name: missing",
		},
		"an added rule": {
			func(s map[string]any) {
				property(s)["maxLength"] = 3.0
			}, "schema.properties.name.maxLength: not in Kyma's schema",
		},
		"a lost rule": {
			func(s map[string]any) { delete(property(s), "pattern") }, "schema.properties.name.pattern: missing",
		},
		"another pattern": {
			func(s map[string]any) { property(s)["pattern"] = "^[a-z]*$" }, "schema.properties.name.pattern",
		},
		"another type": {
			func(s map[string]any) { property(s)["type"] = "integer" }, "schema.properties.name.type",
		},
		"unknown fields refused": {
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
	t.Fatalf("%s: spec.versions: %s not found", path, wanted)
	return crd{}
}

// differences lists the differences of ours from theirs. It ignores descriptions and added properties. A newly required
// property is still found, because lists are compared as a whole.
func differences(path string, theirs, ours any) []string {
	a, ok := theirs.(map[string]any)
	b, same := ours.(map[string]any)
	if !ok || !same {
		if reflect.DeepEqual(theirs, ours) {
			return nil
		}
		return []string{fmt.Sprintf("%s: got %v, want %v", path, ours, theirs)}
	}
	// A property can itself be named description or properties, so property names and keywords are distinguished.
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

func TestChartsHaveTheSameCRDs(t *testing.T) {
	for _, plural := range plurals {
		file := v1beta2.Group + "_" + plural + ".yaml"
		runtimes, err := os.ReadFile(filepath.Join(crds, "../../../skr-agent/crds", file))
		if plural == "watchers" { // Watchers exist in the control plane only
			if !os.IsNotExist(err) {
				t.Errorf("%s: the agent's chart must not contain Watchers", file)
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
		t.Fatalf("no catalog files: %v", err)
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

// losses lists the values in before that after lacks. A field that only repeats its default can be missing.
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
