package inventory

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	pinned = "registry.example/kyma/keda@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	tagged = "registry.example/kyma/scaler:1.7.0"
)

var (
	keda   = Module{"keda", "1.0.0"}
	older  = Module{"scaler", "1.7.0"}
	newer  = Module{"scaler", "1.8.0"}
	broken = Module{"mailer", "1.0.0"}
)

// example returns the inventory of the runtimes "a", "b" and "never". Runtime "a" reported three days ago and runs an
// older version of module scaler. Runtime "never" has not sent a report.
func example() Fleet {
	return New([]Runtime{
		{ID: "b", Reported: noon, Modules: []Module{keda, newer, broken}},
		{ID: "a", Reported: noon.Add(-72 * time.Hour), Modules: []Module{keda, older}},
		{ID: "never"},
	}, map[Module]Content{
		keda: {
			Images: []string{pinned},
		}, older: {Images: []string{tagged, pinned}}, newer: {Images: []string{"registry.example/kyma/scaler:1.8.0"}},
		broken: {Images: []string{"mailer:1"}, Problem: "the chart does not render"},
	})
}

func TestInventoryJoinsRuntimesWithModuleImages(t *testing.T) {
	old := Holder{"a", noon.Add(-72 * time.Hour)}
	want := Fleet{
		Images: []Image{
			{"mailer:1", []Use{{broken, []Holder{{"b", noon}}}}},
			{
				"registry.example/kyma/keda@sha256:" + strings.Repeat("1", 64),
				[]Use{{keda, []Holder{old, {"b", noon}}}, {older, []Holder{old}}},
			},
			{tagged, []Use{{older, []Holder{old}}}},
			{"registry.example/kyma/scaler:1.8.0", []Use{{newer, []Holder{{"b", noon}}}}},
		},
		Modules: []ModuleUse{
			{keda, 2, old.Reported}, {broken, 1, noon}, {older, 1, old.Reported}, {newer, 1, noon},
		},
		Unknown: []Unknown{{broken, 1, "the chart does not render"}}, Unreported: 1,
	}
	got := example()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
	if image := got.Images[1]; image.Runtimes() != 2 || !image.Oldest().Equal(old.Reported) {
		t.Errorf("got %d runtimes and oldest report %s, want 2 and %s", image.Runtimes(), image.Oldest(), old.Reported)
	}
	missing := New([]Runtime{{ID: "a", Reported: noon, Modules: []Module{keda}}}, nil)
	if len(missing.Unknown) != 1 || missing.Unknown[0].Problem == "" {
		t.Errorf("version without content: got %+v, want one unknown version with a problem", missing.Unknown)
	}
}

func TestSelectMatchesImageByReferenceDigestOrName(t *testing.T) {
	for asked, want := range map[string]int{
		"": 4, pinned: 1, "sha256:" + strings.Repeat("1", 64): 1, "registry.example/kyma/keda": 1, "kyma/keda": 1,
		"keda":                         1,
		"registry.example/kyma/scaler": 2, "scaler": 2, tagged: 1, "registry.example/kyma/scaler:2": 0, "caler": 0,
		"sha256:" + strings.Repeat("2", 64): 0, "mailer": 1, "library/mailer": 1, "docker.io/library/mailer:1": 1,
		"registry.example/kyma/keda:1": 0, "other.example/kyma/keda": 0,
	} {
		if got := example().Select(asked, ""); len(got.Images) != want || got.Unreported != 1 || len(got.Unknown) != 1 {
			t.Errorf("image %q: got %d images, want %d: %+v", asked, len(got.Images), want, got)
		}
	}
	got := example().Select(pinned, "scaler")
	if len(got.Images) != 1 || len(got.Images[0].Uses) != 1 || got.Images[0].Uses[0].Module != older ||
		len(got.Unknown) > 0 {
		t.Errorf("images of module scaler: got %+v, want one image with one use", got)
	}
	if uses := example().Images[1].Uses; len(uses) != 2 {
		t.Errorf("Select changed the uses in the inventory: %+v", uses)
	}
}

func TestBillOfMaterialsListsEachImageOnce(t *testing.T) {
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).
		Encode(example().CycloneDX("fleet-1", noon)); err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&out, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	refs, urls := map[string]bool{}, map[string]string{}
	for _, c := range *bom.Components {
		if refs[c.BOMRef] {
			t.Errorf("component %s appears twice", c.BOMRef)
		}
		refs[c.BOMRef], urls[c.BOMRef] = true, c.PackageURL
	}
	for _, d := range *bom.Dependencies {
		for _, to := range *d.Dependencies {
			if !refs[to] {
				t.Errorf("%s depends on %s, which is not a component", d.Ref, to)
			}
		}
	}
	if len(refs) != 8 {
		t.Errorf("got %d components, want 8: %v", len(refs), refs)
	}
	want := "pkg:oci/keda@sha256%3A" + strings.Repeat("1", 64) + "?repository_url=registry.example%2Fkyma%2Fkeda"
	if got := urls["image:"+pinned]; got != want {
		t.Errorf("the package URL is %s, want %s", got, want)
	}
}

// Each runtime has 20 modules. Each module has three versions, and each version has four images.
func BenchmarkTenThousandRuntimes(b *testing.B) {
	contents := map[Module]Content{}
	runtimes := make([]Runtime, 10_000)
	for i := range runtimes {
		runtimes[i] = Runtime{ID: fmt.Sprint("runtime-", i), Reported: noon}
		for n := range 20 {
			m := Module{fmt.Sprint("module-", n), fmt.Sprintf("1.%d.0", i%3)}
			runtimes[i].Modules = append(runtimes[i].Modules, m)
			if _, known := contents[m]; !known {
				var images []string
				for part := range 4 {
					images = append(images, fmt.Sprintf("registry.example/%s/part-%d:%s", m.Name, part, m.Version))
				}
				contents[m] = Content{Images: images}
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		found := New(runtimes, contents).Select("registry.example/module-7/part-2:1.1.0", "")
		if len(found.Images) != 1 || found.Images[0].Runtimes() != 3333 {
			b.Fatalf("got %+v, want one image in 3333 runtimes", found.Images)
		}
	}
}
