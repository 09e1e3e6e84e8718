package resolve

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

func encoded(t interface {
	Helper()
	Fatal(...any)
}, result Result) bundle.Documents {
	t.Helper()
	documents, err := bundle.NewDocuments(result.State, result.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// drawWorld draws a catalog with all kinds of modules, and a Kyma that requests known and unknown modules.
func drawWorld(t *rapid.T) *world {
	versions := []string{"1.0.0", "1.1.0-rc", "1.1.0", "2.0.0"}
	modules := []string{"alpha", "bravo", "carol", "delta", "echo"}
	w := newWorld()
	for _, module := range modules {
		if rapid.IntRange(0, 3).Draw(t, "older "+module) == 0 {
			for _, channel := range []string{"regular", "fast"} {
				w.older(module+"-"+channel, module, channel, rapid.SampledFrom(versions).Draw(t, "version"),
					labelledTemplate(v1beta2.LabelModuleName, module))
			}
			continue
		}
		for _, version := range rapid.SliceOfDistinct(rapid.SampledFrom(versions), rapid.ID[string]).
			Draw(t, "versions "+module) {
			w.template(module, version, described(module, version), func(t *v1beta2.ModuleTemplate) {
				t.Annotations = map[string]string{"a": "1", "b": "2"}
			})
			if rapid.IntRange(0, 5).Draw(t, "mandatory "+version) == 0 {
				w.templates[len(w.templates)-1].Spec.Mandatory = true
			}
			if rapid.IntRange(0, 5).Draw(t, "twice "+version) == 0 {
				w.template(module, version, func(t *v1beta2.ModuleTemplate) { t.Name += "-again" })
			}
			if rapid.IntRange(0, 5).Draw(t, "broken "+version) == 0 {
				w.whole(module, version, Content{Err: errors.New("cannot be read")})
			}
		}
		w.meta(module, "regular="+rapid.SampledFrom(versions).Draw(t, "regular "+module),
			"fast="+rapid.SampledFrom(versions).Draw(t, "fast "+module))
		switch rapid.IntRange(0, 5).Draw(t, "kind of "+module) {
		case 0:
			w.edit(mandatoryMeta(rapid.SampledFrom(versions).Draw(t, "mandatory version")))
		case 1:
			w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true })
		case 2:
			second := w.metas[len(w.metas)-1]
			second.Name, second.Spec.Channels = "a-second-"+module,
				[]v1beta2.ChannelVersion{{Channel: "regular", Version: "2.0.0"}}
			w.metas = append(w.metas, second)
		}
	}
	if rapid.Bool().Draw(t, "beta Kyma") {
		w.labeled(v1beta2.LabelBeta, "team")
	}
	drawWishes(t, w, modules)
	return w
}

func drawWishes(t *rapid.T, w *world, modules []string) {
	w.request.Requested = v1beta2.KymaSpec{Channel: rapid.SampledFrom([]string{"regular", "fast"}).Draw(t, "channel")}
	for _, module := range append(modules, "unknown") {
		if rapid.Bool().Draw(t, "asks for "+module) {
			w.ask(module, func(m *v1beta2.Module) {
				m.Managed = rapid.IntRange(0, 4).Draw(t, "managed") > 0
				m.Channel = rapid.SampledFrom([]string{"", "", "regular", "fast", "slow"}).Draw(t, "own channel")
			})
		}
	}
	w.request.Seed = *w.request.Requested.DeepCopy()
}

func TestResolutionDoesNotDependOnInputOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		first := resolveDrawn(t, w)
		w.request.LastState = &first.State
		drawWishes(t, w, []string{"alpha", "bravo", "carol", "delta", "echo"})
		want := encoded(t, resolveDrawn(t, w))

		shuffled := *w
		shuffled.templates = inAnotherOrder(t, w.templates, "templates")
		shuffled.metas = inAnotherOrder(t, w.metas, "metas")
		shuffled.request.Requested.Modules = inAnotherOrder(t, w.request.Requested.Modules, "modules")
		shuffled.request.Seed.Modules = inAnotherOrder(t, w.request.Seed.Modules, "seed")
		got := encoded(t, resolveDrawn(t, &shuffled))
		if got.State.Descriptor.Digest != want.State.Descriptor.Digest {
			t.Errorf("got state\n%s\nin another order\n%s", want.State.Bytes, got.State.Bytes)
		}
		if got.Catalog.Descriptor.Digest != want.Catalog.Descriptor.Digest {
			t.Errorf("got catalog\n%s\nin another order\n%s", want.Catalog.Bytes, got.Catalog.Bytes)
		}
		if a, b := snapshotOf(t, w).Revision, snapshotOf(t, &shuffled).Revision; a != b {
			t.Errorf("got revision %s, in another order %s", a, b)
		}
	})
}

func TestUnrelatedModuleDoesNotChangeManifests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := resolveDrawn(t, w).State
		w.template("zulu", "1.0.0", described("zulu", "1.0.0")).meta("zulu", "regular=1.0.0", "fast=1.0.0")
		if rapid.Bool().Draw(t, "older too") {
			w.older("yankee", "yankee", "regular", "1.0.0")
		}
		after := resolveDrawn(t, w).State
		a, errA := bundle.EncodeDesiredState(before)
		b, errB := bundle.EncodeDesiredState(after)
		if err := cmp.Or(errA, errB); err != nil || string(a) != string(b) {
			t.Errorf("error %v: manifests changed from\n%s\nto\n%s", err, a, b)
		}
	})
}

func TestManifestsAreNeverDowngradedOrLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		last := resolveDrawn(t, w).State
		next := drawWorld(t)
		next.request.LastState = &last
		result := resolveDrawn(t, next)
		for _, m := range last.Manifests {
			now := lastManifest(&result.State, m.Module)
			if now == nil && slices.Contains(result.RequestedNames, m.Module) {
				t.Errorf("the requested module %s lost its manifest", m.Module)
			}
			if now != nil && bundle.IsOlder(now.Version, m.Version) {
				t.Errorf("module %s was downgraded from %s to %s", m.Module, m.Version, now.Version)
			}
		}
		if data, err := bundle.EncodeDesiredState(result.State); err != nil {
			t.Error(err)
		} else if _, err := bundle.DecodeDesiredState(data); err != nil {
			t.Errorf("agents cannot read the result: %v", err)
		}
	})
}

// inAnotherOrder shuffles a list. It draws positions instead of objects, so that failures are easier to read.
func inAnotherOrder[T any](t *rapid.T, in []T, label string) []T {
	positions := make([]int, len(in))
	for i := range positions {
		positions[i] = i
	}
	out := make([]T, 0, len(in))
	for _, i := range rapid.Permutation(positions).Draw(t, label) {
		out = append(out, in[i])
	}
	return out
}

func snapshotOf(t *rapid.T, w *world) *catalog.Snapshot {
	snapshot, err := catalog.New(w.templates, w.metas)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func resolveDrawn(t *rapid.T, w *world) Result {
	return Resolve(w.request, snapshotOf(t, w), w.contents)
}
