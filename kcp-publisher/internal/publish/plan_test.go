package publish

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

var (
	noon     = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	trusted  = trust.Root{Version: 1, Epoch: 1}
	validity = 9 * time.Hour
)

func documents(t *testing.T, modules ...string) bundle.Documents {
	t.Helper()
	state := bundle.DesiredState{}
	for _, m := range modules {
		state.Manifests = append(state.Manifests, bundle.Manifest{Name: m, Module: m, Version: "1.0.0"})
	}
	d, err := bundle.NewDocuments(state, bundle.Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// publishedAt is what lies in the registry after a first bundle with these modules.
func publishedAt(t *testing.T, at time.Time, removals []string, modules ...string) *Published {
	d := documents(t, modules...)
	predicate, _ := Plan(nil, d, modules, Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}, trusted, validity, at)
	predicate.Removals = removals
	p := &Published{Predicate: predicate, Digest: "sha256:last", StateDigest: d.State.Descriptor.Digest, CatalogDigest: d.Catalog.Descriptor.Digest}
	for _, m := range modules {
		p.State.Manifests = append(p.State.Manifests, bundle.Manifest{Name: m, Module: m, Version: "1.0.0"})
	}
	return p
}

func TestABundleIsPushedOnlyWhenItSaysSomethingNew(t *testing.T) {
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	for name, c := range map[string]struct {
		last     *Published
		want     []string // modules resolved
		asked    []string
		runtime  func(Runtime) Runtime
		at       time.Time
		push     bool
		removals []string
	}{
		"nothing was published": {nil, []string{"keda"}, []string{"keda"}, nil, noon, true, nil},
		"nothing changed":       {publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(time.Hour), false, nil},
		"a module came":         {publishedAt(t, noon, nil, "keda"), []string{"keda", "nats"}, []string{"keda", "nats"}, nil, noon, true, nil},
		"a module was given up": {publishedAt(t, noon, nil, "keda", "nats"), []string{"keda"}, []string{"keda"}, nil, noon, true, []string{"nats"}},
		"a module that was asked for does not resolve and had no version yet": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon, false, nil},
		"a removal stays until it is confirmed": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Installed, r.Observed = []string{"keda", "nats"}, "sha256:last"; return r }, noon, false, []string{"nats"}},
		"a report about an older bundle confirms nothing": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Installed, r.Observed = []string{"keda"}, "sha256:older"; return r }, noon, false, []string{"nats"}},
		"a confirmed removal is dropped without a push of its own": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Installed, r.Observed = []string{"keda"}, "sha256:last"; return r }, noon, false, nil},
		"a module comes back while its removal is pending": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon, true, nil},
		"the runtime has a module that nobody published": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Installed = []string{"keda", "old"}; return r }, noon, true, []string{"old"}},
		"the registry forgot a module that the control plane remembers": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Versions = map[string]string{"old": "1.0.0"}; return r }, noon, true, []string{"old"}},
		"the runtime's Kyma has a new generation": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.KymaGeneration = 2; return r }, noon, true, nil},
		"the cluster became known": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Audience.ClusterUID = "u"; return r }, noon, true, nil},
		"somebody put an older bundle back": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.LastEpoch, r.LastSequence = 1, noon.Add(time.Minute).UnixMilli(); return r }, noon.Add(time.Hour), true, nil},
		"a sequence of another epoch is none to remember": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.LastEpoch, r.LastSequence = 2, noon.Add(time.Minute).UnixMilli(); return r }, noon.Add(time.Hour), false, nil},
		"the Kyma is deleted": {
			publishedAt(t, noon, nil, "keda"), nil, nil,
			func(r Runtime) Runtime { r.Deleting = true; return r }, noon, true, []string{"keda"}},
		"its file is carried for longer than the last bundle lives": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity + time.Hour; return r }, noon, true, nil},
		"its file is carried for less": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity - time.Hour; return r }, noon, false, nil},
		"just before renewal": {publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(3*time.Hour - time.Second), false, nil},
		"renewal":             {publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(3 * time.Hour), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := one
			if c.runtime != nil {
				r = c.runtime(r)
			}
			predicate, push := Plan(c.last, documents(t, c.want...), c.asked, r, trusted, validity, c.at)
			if push != c.push || !slices.Equal(predicate.Removals, c.removals) {
				t.Errorf("push %v, removals %v; want %v, %v", push, predicate.Removals, c.push, c.removals)
			}
			if c.last != nil && predicate.Sequence <= c.last.Predicate.Sequence {
				t.Errorf("sequence %d after %d", predicate.Sequence, c.last.Predicate.Sequence)
			}
		})
	}
}

func TestTheLastBundleLivesLong(t *testing.T) {
	predicate, _ := Plan(publishedAt(t, noon, nil, "keda"), documents(t), nil, Runtime{ID: "one", Deleting: true}, trusted, validity, noon)
	if !predicate.Deleting || predicate.ExpiresAt.Sub(predicate.IssuedAt) != lastBundleValidity {
		t.Errorf("deleting %v, life %s", predicate.Deleting, predicate.ExpiresAt.Sub(predicate.IssuedAt))
	}
}

func TestSequencesGrowAlsoWhenTheRegistryForgot(t *testing.T) {
	future := noon.Add(time.Hour).UnixMilli()
	predicate, push := Plan(nil, documents(t), nil, Runtime{ID: "one", LastEpoch: 1, LastSequence: future}, trusted, validity, noon)
	if !push || predicate.Sequence != future+1 {
		t.Errorf("push %v, sequence %d, want %d", push, predicate.Sequence, future+1)
	}
}

// TestANewEpochStartsSequencesOver: who stole a publisher's key may have published so far ahead that nobody can go on from there.
func TestANewEpochStartsSequencesOver(t *testing.T) {
	ahead := publishedAt(t, noon, nil, "keda")
	ahead.Predicate.Sequence = math.MaxInt64 - 1
	r := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}, LastEpoch: 1, LastSequence: math.MaxInt64 - 1}
	anew := trust.Root{Version: 2, Epoch: 2}
	predicate, push := Plan(ahead, documents(t, "keda"), []string{"keda"}, r, anew, validity, noon)
	if !push || predicate.Epoch != 2 || predicate.Sequence != noon.UnixMilli() {
		t.Fatalf("push %v, sequence %d of epoch %d", push, predicate.Sequence, predicate.Epoch)
	}
	// What the control plane remembers is of the old epoch until its status is written.
	last := &Published{Predicate: predicate, StateDigest: ahead.StateDigest, CatalogDigest: ahead.CatalogDigest}
	if predicate, push := Plan(last, documents(t, "keda"), []string{"keda"}, r, anew, validity, noon); push {
		t.Errorf("it was pushed once more, as %d", predicate.Sequence)
	}
}

func TestACommitIsToldByABundleThatIsNeededAndMakesNoneNeeded(t *testing.T) {
	r := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}, Source: &bundle.Source{Repository: "https://git.example/fleet", Commit: "b"}}
	last := publishedAt(t, noon, nil, "keda")
	last.Predicate.Source = &bundle.Source{Repository: "https://git.example/fleet", Commit: "a"}
	if _, needed := Plan(last, documents(t, "keda"), []string{"keda"}, r, trusted, validity, noon); needed {
		t.Error("another commit with the same content is published")
	}
	if next, needed := Plan(last, documents(t, "keda", "nats"), []string{"keda", "nats"}, r, trusted, validity, noon); !needed || next.Source != r.Source {
		t.Errorf("a commit with other content: %t, %+v", needed, next.Source)
	}
}
