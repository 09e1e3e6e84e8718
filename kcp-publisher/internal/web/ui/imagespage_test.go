package ui

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

const kedaImage = "registry.example/kyma/keda@sha256:1111111111111111111111111111111111111111111111111111111111111111"

func sampleContents(_ context.Context, runtimes []inventory.Runtime) (map[inventory.Module]inventory.Content, error) {
	found := map[inventory.Module]inventory.Content{}
	for _, r := range runtimes {
		for _, m := range r.Modules {
			switch {
			case m.Name == "keda" && m.Version == "1.7.0":
				found[m] = inventory.Content{Images: []string{kedaImage}}
			case m.Name == "keda":
				found[m] = inventory.Content{Images: []string{kedaImage, "registry.example/kyma/" + hostile + ":1"}}
			}
		}
	}
	return found, nil
}

func (s *served) kymas(ctx context.Context) ([]v1beta2.Kyma, error) {
	current, _, err := s.source.snapshot()
	if err != nil {
		return nil, err
	}
	var all []v1beta2.Kyma
	for i := range current.Runtimes {
		r := &current.Runtimes[i]
		kyma, err := sampleKyma(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, m := range r.Modules {
			kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{Name: m.Name, Version: m.Version})
		}
		all = append(all, *kyma)
	}
	return all, nil
}

func TestImagesPageShowsImagesAfterTheyAreRead(t *testing.T) {
	s := serve(t, sampleFleet(20, true), nil)
	var page string
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, page, _ = s.get(t, "/images"); !strings.Contains(page, "Reading the bundles") {
			break
		}
		if strings.Contains(page, inventory.NoBundle) {
			t.Fatalf("the page reports a missing bundle before the bundles are read:\n%s", page)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the images are still being read:\n%s", page)
		}
	}
	for _, want := range []string{
		"keda@<wbr>", "keda 1.7.0", "keda 1.8.0", `href="/?module=keda&amp;version=1.7.0`,
		"Incomplete: module serverless 2.1.0 in 20 runtimes: " + inventory.NoBundle,
	} {
		if !strings.Contains(strings.ReplaceAll(page, "@sha256", "@<wbr>sha256"), want) {
			t.Errorf("page does not contain %q:\n%s", want, page)
		}
	}
	_, page, _ = s.get(t, "/images?image=unknown")
	if !strings.Contains(page, "No reported module uses a matching image") {
		t.Errorf("the page for an unknown image has no message:\n%s", page)
	}
	search := "/images?image=" + url.QueryEscape(hostile) + "&module=" + url.QueryEscape(hostile)
	if _, page, _ = s.get(t, search); strings.Contains(page, "<script>document") {
		t.Error("the search text is not escaped")
	}
}

func TestImagesAreReadOncePerVersion(t *testing.T) {
	keda := inventory.Module{Name: "keda", Version: "1.7.0"}
	mailer := inventory.Module{Name: "mailer", Version: "1.0.0"}
	runtimes := []inventory.Runtime{
		{ID: "a", Modules: []inventory.Module{keda, mailer}}, {ID: "b", Modules: []inventory.Module{keda}},
	}
	var c imageCache
	asked := make(chan []inventory.Runtime, 1)
	read := func(r []inventory.Runtime) { asked <- r }
	if known, pending := c.cachedImages(runtimes, noon, read); len(known) != 0 || pending != 2 {
		t.Errorf("first request: got known %v, pending %d, want 2 pending", known, pending)
	}
	first := <-asked
	if _, pending := c.cachedImages(runtimes, noon, read); pending != 2 || len(asked) != 0 {
		t.Errorf("during the read: got pending %d and %d more reads", pending, len(asked))
	}
	found := map[inventory.Module]inventory.Content{keda: {Images: []string{kedaImage}}}
	c.put(first, found, "away", noon)
	known, pending := c.cachedImages(runtimes, noon.Add(time.Minute), read)
	if pending != 0 || len(known[keda].Images) != 1 || known[mailer].Problem != "away" {
		t.Errorf("after the read: got known %v, pending %d", known, pending)
	}
	if _, pending := c.cachedImages(runtimes, noon.Add(contentsAgain), read); pending != 1 {
		t.Errorf("a failed read is not repeated: pending %d", pending)
	}
	if again := <-asked; len(again) != 1 || len(again[0].Modules) != 1 || again[0].Modules[0] != mailer {
		t.Errorf("the repeated read is %+v, want only the failed module", again)
	}
}

// A chart can use different images for each Kubernetes version.
func TestImagesAreReadAgainForNewKubernetesVersions(t *testing.T) {
	keda, mailer := inventory.Module{Name: "keda", Version: "1.7.0"}, inventory.Module{Name: "mailer", Version: "1.0.0"}
	var c imageCache
	asked := make(chan []inventory.Runtime, 1)
	runtimes := []inventory.Runtime{{ID: "a", Kubernetes: "v1.35.1", Modules: []inventory.Module{keda, mailer}}}
	show := func(at time.Time) int {
		_, pending := c.cachedImages(runtimes, at, func(r []inventory.Runtime) { asked <- r })
		if pending == 0 {
			return 0
		}
		requested := <-asked
		c.put(requested, map[inventory.Module]inventory.Content{
			keda: {Images: []string{kedaImage}}, mailer: {Images: []string{kedaImage}},
		}, "", at)
		return len(requested)
	}
	later := noon.Add(contentsAgain)
	if first, second := show(noon), show(later); first != 1 || second != 0 {
		t.Fatalf("the first views read %d and %d runtimes, want 1 and 0", first, second)
	}
	runtimes = append(runtimes, inventory.Runtime{ID: "b", Kubernetes: "v1.36.0", Modules: []inventory.Module{keda}})
	if n := show(later); n != 2 {
		t.Errorf("a new Kubernetes version: %d runtimes were read, want all runtimes with the module", n)
	}
	runtimes[1].Kubernetes = "v1.36.1"
	if again, afterwards := show(later), show(later.Add(contentsAgain)); again != 0 || afterwards != 2 {
		t.Errorf("another version soon after: %d runtimes were read, later %d, want 0 and 2", again, afterwards)
	}
}

func TestReportedVersionsDoNotDisplaceOtherRuntimesImages(t *testing.T) {
	keda := inventory.Module{Name: "keda", Version: "1.7.0"}
	var c imageCache
	asked := make(chan []inventory.Runtime, 1)
	read := func(r []inventory.Runtime) { asked <- r }
	for report := range 30 {
		stranger := inventory.Runtime{ID: "stranger"}
		for i := range 500 {
			stranger.Modules = append(stranger.Modules,
				inventory.Module{Name: "made-up", Version: fmt.Sprintf("1.%d.%d", report, i)})
		}
		c.cachedImages([]inventory.Runtime{{ID: "a", Modules: []inventory.Module{keda}}, stranger}, noon, read)
		found := map[inventory.Module]inventory.Content{}
		for _, r := range <-asked {
			if report > 0 && slices.Contains(r.Modules, keda) {
				t.Fatalf("report %d: the images of runtime a are read again", report)
			}
			for _, m := range r.Modules {
				found[m] = inventory.Content{Images: []string{kedaImage}}
			}
			c.put([]inventory.Runtime{r}, found, "", noon)
		}
		if len(c.known) > maxContents+500 {
			t.Fatalf("report %d: %d versions are cached", report, len(c.known))
		}
	}
}

func TestInventedVersionsFromManyRuntimesDoNotDisplaceImages(t *testing.T) {
	keda := inventory.Module{Name: "keda", Version: "1.7.0"}
	runtimes := []inventory.Runtime{{ID: "a", Modules: []inventory.Module{keda}}}
	for n := range maxContents/400 + 1 {
		stranger := inventory.Runtime{ID: fmt.Sprintf("stranger-%d", n)}
		for i := range 400 {
			stranger.Modules = append(stranger.Modules,
				inventory.Module{Name: "made-up", Version: fmt.Sprintf("1.%d.%d", n, i)})
		}
		runtimes = append(runtimes, stranger)
	}
	var c imageCache
	asked := make(chan []inventory.Runtime, 1)
	for view := range 3 {
		known, _ := c.cachedImages(runtimes, noon, func(r []inventory.Runtime) { asked <- r })
		if view > 0 && len(known[keda].Images) != 1 {
			t.Fatalf("view %d: the images of runtime a are not cached", view)
		}
		found := map[inventory.Module]inventory.Content{keda: {Images: []string{kedaImage}}}
		c.put(<-asked, found, "", noon)
	}
}
