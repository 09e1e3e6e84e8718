package ui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

// Runtimes and module authors can choose the size of each entry, so the UI's caches are limited in bytes.
func TestPageCachesAreLimitedInBytes(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	reports, origins := newReports(), newOriginCache()
	now := func() time.Time { return noon }
	for i := range 100 {
		kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("runtime-", i)}}
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Digest: fmt.Sprint(i)}}
		_, err := reports.of(t.Context(), kyma, now, func(context.Context, *v1beta2.Kyma) (bundle.Report, error) {
			return bundle.Report{AgentVersion: large}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = origins.cachedOrigins(t.Context(), kyma.Name, kyma,
			func(context.Context, *v1beta2.Kyma) ([]bundle.Origin, error) {
				return []bundle.Origin{{Module: large}}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		origins.readChain(t.Context(), kyma.Name, kyma, func(context.Context, *v1beta2.Kyma) (fleet.Chain, error) {
			return fleet.Chain{Bundles: make([]bundle.BundleIdentity, 10_000)}, nil
		})
	}
	for name, size := range map[string]func() (int, int){
		"reports": reports.known.Size, "origins": origins.known.Size, "chains": origins.chains.Size,
	} {
		if entries, bytes := size(); entries < 2 || entries == 100 || bytes > maxReportsBytes {
			t.Errorf("%s: %d entries with %d bytes are cached", name, entries, bytes)
		}
	}
}

func TestCachedImagesAreLimitedInBytes(t *testing.T) {
	keda := inventory.Module{Name: "keda", Version: "1.7.0"}
	var c imageCache
	asked := make(chan []inventory.Runtime, 1)
	for round := range 10 {
		runtimes := []inventory.Runtime{{ID: "a", Modules: []inventory.Module{keda}}, {ID: "stranger"}}
		for i := range 300 {
			runtimes[1].Modules = append(runtimes[1].Modules,
				inventory.Module{Name: "large", Version: fmt.Sprintf("1.%d.%d", round, i)})
		}
		c.cachedImages(runtimes, noon, func(r []inventory.Runtime) { asked <- r })
		found := map[inventory.Module]inventory.Content{keda: {Images: []string{kedaImage}}}
		for i, m := range runtimes[1].Modules {
			found[m] = inventory.Content{Images: []string{strings.Repeat("x", 60<<10)}}
			if i == 0 {
				found[m] = inventory.Content{Images: []string{strings.Repeat("x", 1<<20)}}
			}
		}
		c.put(<-asked, found, "", noon)
		if got := c.known[runtimes[1].Modules[0]]; len(got.Images) > 0 || got.Problem == "" {
			t.Fatalf("the images of an oversized version are cached: %.200v", got)
		}
		total := 0
		for m, content := range c.known {
			total += contentBytes(m, content)
		}
		if total != c.bytes || total > maxContentsBytes+300*maxContentBytes {
			t.Fatalf("round %d: %d bytes are cached, and %d are counted", round, total, c.bytes)
		}
		if len(c.known[keda].Images) != 1 {
			t.Fatalf("round %d: the images of another runtime were dropped", round)
		}
	}
}
