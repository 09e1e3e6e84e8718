package publish

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// holds returns the number of entries in each of the publisher's caches, and the caches' sizes.
func (p *Publisher) holds(records int) map[string]int {
	found, bytesFound := p.contentsFound.Size()
	needed, bytesNeeded := p.contentsNeeded.Size()
	resolved, bytesResolved := p.resolved.Size()
	opened, _ := p.opened.Size()
	return map[string]int{
		"runtimes": records, "contents of components": found, "contents of requests": needed,
		"bytes of contents": (bytesFound + bytesNeeded) / 1024,
		"resolutions":       resolved, "bytes of resolutions": bytesResolved / 1024, "opened documents": opened,
	}
}

// Every twenty minutes of the simulated day, the test promotes a version, and creates and deletes a runtime.
func TestMemoryStaysConstantDuringADayOfPublishing(t *testing.T) {
	const (
		runtimes = 4
		step     = 20 * time.Minute
		name     = "example.com/scaler"
	)
	f, source := newFleet(t), components{store.NewMemory()}
	p := f.started()
	p.RecheckInterval = time.Hour
	p.Components = component.NewReader(component.Options{Sources: []component.Source{source}, Revalidate: time.Hour})
	remembered := map[string]*plan.RecordedBundle{}
	var early map[string]int
	for i := range int(24 * time.Hour / step) {
		f.now = noon.Add(time.Duration(i) * step)
		version := fmt.Sprintf("1.%d.0", i)
		source.add(t, name, version, fmt.Sprintf("kind: ConfigMap\nmetadata: {name: scaler-%d}\n", i))
		snapshot, err := catalog.New([]v1beta2.ModuleTemplate{{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kcp-system",
				Name:      "scaler-" + version,
			}, Spec: v1beta2.ModuleTemplateSpec{ModuleName: "scaler", Version: version},
		}}, []v1beta2.ModuleReleaseMeta{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler"},
			Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "scaler", OcmComponentName: name,
				Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: version}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{fmt.Sprint("passing-", i)}
		for n := range runtimes {
			ids = append(ids, fmt.Sprint("one-", n))
		}
		for _, id := range ids {
			runtime := runtimeNamed(id)
			runtime.RecordedBundle = remembered[id]
			spec := v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "scaler", Managed: true}}}
			outcome, err := p.Publish(t.Context(), f.record(p, id), Input{
				Runtime: runtime, Request: resolve.Request{Seed: spec, Requested: spec}, Catalog: snapshot,
			})
			if err != nil || !outcome.IsPushed || outcome.Published.Versions["scaler"] != version {
				t.Fatalf("runtime %s at %s: got %+v, %v, want version %s", id, f.now, outcome, err, version)
			}
			remembered[id] = after(outcome.Published)
		}
		f.record(p, ids[0]).Drop()
		delete(f.records[p], ids[0])
		delete(remembered, ids[0])
		if i == int(8*time.Hour/step) {
			early = p.holds(len(f.records[p]))
		}
	}
	late := p.holds(len(f.records[p]))
	if early["runtimes"] != runtimes || early["resolutions"] == 0 || early["contents of components"] == 0 {
		t.Errorf("after a third of the day: got cache sizes %v", early)
	}
	for what, n := range late {
		if n > early[what]+early[what]/4+1 {
			t.Errorf("%s: got %d after a third of the day and %d after the day", what, early[what], n)
		}
	}
}
