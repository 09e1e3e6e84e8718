package images

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

func moduleContents() map[inventory.Module]inventory.Content {
	contents := map[inventory.Module]inventory.Content{}
	for _, letter := range "abcdefghij" {
		name := "module-" + string(letter)
		contents[inventory.Module{Name: name, Version: "1.7.0"}] = inventory.Content{
			Images: []string{"registry.example/" + name + ":1.7.0"},
		}
	}
	return contents
}

func TestImagesCommandShowsTheAgeOfReports(t *testing.T) {
	const runtimes = 5
	now := time.Now()
	api, _ := controlplanetest.New(t, runtimes, func(i int, kyma *v1beta2.Kyma) {
		switch i {
		case 1: // a runtime whose last report is three days old
			kyma.Status.Runtime.Observed.Time = metav1.NewTime(now.Add(-72 * time.Hour))
		case 2: // a runtime that does not run the published version
			kyma.Status.Modules[1].Version = "1.6.0"
		case 3:
			kyma.Status.Runtime.Observed = nil
		}
	}).Connect(t)
	kymas, _, err := controlplane.ReadDivided(t.Context(), api,
		controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()},
		controlplane.DividedRuntimes{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	drawImages(&out, inventory.New(inventory.ReportedRuntimes(kymas), moduleContents()).Select("module-b", ""), now)
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

func TestImagesCommandReadsOnlyUnhealthyRuntimesInFull(t *testing.T) {
	const runtimes = 100
	now := time.Now()
	s := controlplanetest.New(t, runtimes, func(i int, kyma *v1beta2.Kyma) {
		if i%10 == 0 {
			kyma.Status.Runtime.Observed.Time = metav1.NewTime(now.Add(-72 * time.Hour).Truncate(time.Second))
		}
		if i%4 == 0 {
			controlplanetest.SetVersion("1.8.0", kyma)
		}
	}, controlplanetest.BreakSome)
	api, table := s.Connect(t)
	of := controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()}
	got, err := readReported(t.Context(), api, table, of, now)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.CompleteReads); n > len(controlplanetest.UnhealthyAt)+3*2*export.MaxBundlesTried {
		t.Errorf("read %d of %d Kymas in full: %v", n, runtimes, s.CompleteReads)
	}
	byID := func(a, b inventory.Runtime) int { return strings.Compare(a.ID, b.ID) }
	want := inventory.ReportedRuntimes(s.Kymas)
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	sources := map[inventory.Module]int{}
	for i := range got {
		if got[i].Bundle != "" {
			for _, m := range got[i].Modules {
				sources[m]++
			}
		}
		want[i].Bundle, got[i].Bundle = "", ""
		want[i].Reported = want[i].Reported.UTC().Truncate(time.Second)
		got[i].Reported = got[i].Reported.UTC()
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("runtimes from the table and from full Kymas differ:\n%v\n%v", got, want)
	}
	for m := range versionsIn(want) {
		if sources[m] < export.MaxBundlesTried {
			t.Errorf("%d runtimes with module %s %s have a bundle, want %d", sources[m], m.Name, m.Version,
				export.MaxBundlesTried)
		}
	}
}

func TestImagesCommandReadsAllKymasWithoutReportTimes(t *testing.T) {
	const runtimes = 100
	s := controlplanetest.New(t, runtimes)
	s.Columns = slices.DeleteFunc(s.Columns, func(name string) bool { return name == "Report Time" })
	api, table := s.Connect(t)
	got, err := readReported(t.Context(), api, table,
		controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()},
		time.Now())
	if err != nil || len(got) != runtimes || slices.ContainsFunc(got, func(r inventory.Runtime) bool {
		return r.Bundle == "" || r.Reported.IsZero()
	}) {
		t.Errorf("got %d runtimes and error %v, want %d runtimes with bundles", len(got), err, runtimes)
	}
}

func versionsIn(runtimes []inventory.Runtime) map[inventory.Module]bool {
	modules := map[inventory.Module]bool{}
	for _, r := range runtimes {
		for _, m := range r.Modules {
			modules[m] = true
		}
	}
	return modules
}

// BenchmarkImages measures one query for 10,000 runtimes with 10 modules each. It does not fetch or render the
// modules. The time includes the test's API server.
func BenchmarkImages(b *testing.B) {
	api, table := controlplanetest.New(b, 10_000, controlplanetest.BreakSome).Connect(b)
	contents := moduleContents()
	for b.Loop() {
		runtimes, err := readReported(b.Context(), api, table,
			controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		found := inventory.New(runtimes, contents).Select("module-c", "")
		if len(found.Images) != 1 || found.Images[0].Runtimes() != 10_000 {
			b.Fatalf("got %d images, want 1 in 10,000 runtimes", len(found.Images))
		}
	}
}
