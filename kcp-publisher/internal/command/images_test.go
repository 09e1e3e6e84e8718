package command

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

func imagesOfModules() map[inventory.Module]inventory.Content {
	contents := map[inventory.Module]inventory.Content{}
	for _, letter := range "abcdefghij" {
		name := "module-" + string(letter)
		contents[inventory.Module{Name: name, Version: "1.7.0"}] = inventory.Content{
			Images: []string{"registry.example/" + name + ":1.7.0"},
		}
	}
	return contents
}

func TestImagesAreShownWithTheAgeOfTheReports(t *testing.T) {
	const runtimes = 5
	now := time.Now()
	api, _ := manyKymas(t, runtimes, func(i int, kyma *v1beta2.Kyma) {
		switch i {
		case 1: // the last report is three days old
			kyma.Status.Runtime.Observed.Time = metav1.NewTime(now.Add(-72 * time.Hour))
		case 2: // the runtime does not run the published version
			kyma.Status.Modules[1].Version = "1.6.0"
		case 3:
			kyma.Status.Runtime.Observed = nil
		}
	}).connect(t)
	kymas, _, err := readDivided(t.Context(), api, scope{namespace: defaultNamespace, selector: labels.Everything()},
		divided{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	drawImages(&out, inventory.New(inventory.Reported(kymas), imagesOfModules()).Select("module-b", ""), now)
	for _, want := range []string{
		"registry.example/module-b:1.7.0", "3: runtime-00000, runtime-00001, runtime-00004", "3d ago",
		"incomplete: module module-b 1.6.0 in 1 runtime: no bundle with this version was found",
		"not counted: 1 runtime that never reported",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if drawImages(&out, inventory.New(nil, nil),
		now); out.String() != "no matching images in the modules that runtimes report\n" {
		t.Errorf("without runtimes: got %s", out.String())
	}
}

// BenchmarkImages measures one query for 10,000 runtimes with 10 modules each, without reading and rendering the
// modules.
func BenchmarkImages(b *testing.B) {
	api, _ := manyKymas(b, 10_000).connect(b)
	contents := imagesOfModules()
	for b.Loop() {
		kymas, _, err := readDivided(b.Context(), api,
			scope{namespace: defaultNamespace, selector: labels.Everything()}, divided{})
		if err != nil {
			b.Fatal(err)
		}
		found := inventory.New(inventory.Reported(kymas), contents).Select("module-c", "")
		if len(found.Images) != 1 || found.Images[0].Runtimes() != 10_000 {
			b.Fatalf("got %d images, want 1 in 10,000 runtimes", len(found.Images))
		}
	}
}
