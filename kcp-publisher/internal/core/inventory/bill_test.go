package inventory

import (
	"bytes"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// schemaFolder loads CycloneDX schemas from the sources of the CycloneDX library.
type schemaFolder string

func (f schemaFolder) Load(url string) (any, error) {
	name := path.Base(url)
	switch name {
	case "jsf-0.82.schema.json":
		name = "jsf-0.82.schemax.json" // the library renames this schema
	case "cryptography-defs.schema.json":
		return map[string]any{"definitions": map[string]any{ // the library lacks this schema
			"algorithmFamiliesEnum": true, "ellipticCurvesEnum": true,
		}}, nil
	}
	return jsonschema.FileLoader{}.Load("file://" + filepath.Join(string(f), name))
}

func TestBillsOfMaterialsMatchTheirSchema(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(schemaFolder(filepath.Join(strings.TrimSpace(string(folder)), "schema")))
	schema, err := compiler.Compile(cyclonedx.NewBOM().JSONSchema)
	if err != nil {
		t.Fatal(err)
	}
	for name, fleet := range map[string]Fleet{
		"fleet with images": example(), "image without runtimes": example().Select("unused", ""),
		"empty fleet": New(nil, nil),
	} {
		var out bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).
			Encode(fleet.CycloneDX("fleet-1", noon)); err != nil {
			t.Fatal(err)
		}
		bom, err := jsonschema.UnmarshalJSON(&out)
		if err == nil {
			err = schema.Validate(bom)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBillOfMaterialsCountsAllRuntimesOfAModule(t *testing.T) {
	keda := Module{"keda", "1.0.0"}
	fleet := New([]Runtime{
		{ID: "a", Reported: noon, Modules: []Module{keda}, Kubernetes: "v1.35.0"},
		{ID: "b", Reported: noon.Add(-1e12), Modules: []Module{keda}, Kubernetes: "v1.36.0"},
	}, map[Module]Content{keda: {
		Images: []string{"example.org/old:1"}, Problem: "values differ",
		Kubernetes: map[string][]string{"v1.36.0": {"example.org/new:1"}},
	}})
	bom := fleet.CycloneDX("fleet-1", noon)
	want := []cyclonedx.Property{
		{Name: propertyRuntimes, Value: "2"}, {Name: propertyOldestReport, Value: "2026-11-21T11:43:20Z"},
		{Name: propertyIncomplete, Value: "values differ"},
	}
	for _, c := range *bom.Components {
		if c.Name != "keda" {
			continue
		}
		if got := *c.Properties; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("got properties %+v, want %+v", got, want)
		}
	}
	for _, p := range fleet.SPDX("fleet-1", noon).Packages {
		if p.PackageName == "keda" && !strings.Contains(p.PackageComment, "kyma-pull:incomplete: values differ") {
			t.Errorf("the comment of module keda has no reason: %s", p.PackageComment)
		}
	}
}

func TestBillOfMaterialsCountsUnreportedRuntimes(t *testing.T) {
	fleet := New([]Runtime{{ID: "a"}, {ID: "b"}, {ID: "c", Reported: noon}}, nil)
	component, unreported := fleet.CycloneDX("fleet-1", noon).Metadata.Component, "2"
	want := cyclonedx.Property{Name: propertyUnreported, Value: unreported}
	if component.Properties == nil || !slices.Contains(*component.Properties, want) {
		t.Errorf("the fleet's component has properties %+v, want %+v", component.Properties, want)
	}
	comment := fleet.SPDX("fleet-1", noon).Packages[0].PackageComment
	for _, property := range []string{propertyUnreported + ": " + unreported, propertyIncomplete + ": "} {
		if !strings.Contains(comment, property) {
			t.Errorf("the fleet's SPDX package has comment %q, want %q", comment, property)
		}
	}
	if complete := New(nil, nil).CycloneDX("fleet-1", noon).Metadata.Component; complete.Properties != nil {
		t.Errorf("a complete fleet has properties %+v", complete.Properties)
	}
}

func TestBillOfMaterialsContainsModulesWithoutImages(t *testing.T) {
	crds := Module{"crds", "1.0.0"}
	fleet := New([]Runtime{{ID: "a", Reported: noon, Modules: []Module{crds, keda}}},
		map[Module]Content{crds: {}, keda: {Images: []string{pinned}}})
	for name, c := range map[string]struct {
		fleet Fleet
		want  bool
	}{
		"whole fleet": {fleet, true}, "selected module": {fleet.Select("", "crds"), true},
		"other module": {fleet.Select("", "keda"), false}, "selected image": {fleet.Select(pinned, ""), false},
	} {
		components := *c.fleet.CycloneDX("fleet-1", noon).Components
		at := slices.IndexFunc(components, func(c cyclonedx.Component) bool { return c.BOMRef == "module:crds@1.0.0" })
		if at >= 0 != c.want || at >= 0 && (*components[at].Properties)[0].Value != "1" {
			t.Errorf("%s: got components %+v, want module crds in one runtime: %t", name, components, c.want)
		}
		isCRDs := func(p *spdx.Package) bool { return p.PackageName == "crds" }
		if got := slices.ContainsFunc(c.fleet.SPDX("fleet-1", noon).Packages, isCRDs); got != c.want {
			t.Errorf("%s: got an SPDX package for module crds: %t, want %t", name, got, c.want)
		}
	}
}
