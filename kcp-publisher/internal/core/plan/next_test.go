package plan

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
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

// publishedAt is the content of the registry after a first bundle with these modules.
func publishedAt(t *testing.T, at time.Time, removals []string, modules ...string) *Published {
	d := documents(t, modules...)
	predicate, _ := Next(Adopted{}, Wanted{Documents: d, Asked: modules},
		Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}, trusted, validity, at)
	predicate.Removals = removals
	p := &Published{
		Predicate: predicate, Digest: "sha256:last", StateBlob: d.State.Descriptor, CatalogBlob: d.Catalog.Descriptor,
	}
	for _, m := range modules {
		p.State.Manifests = append(p.State.Manifests, bundle.Manifest{Name: m, Module: m, Version: "1.0.0"})
	}
	return p
}

// after returns the state after a bundle, nil for none.
func after(last *Published) Adopted {
	return Adopted{Last: last, Keep: last != nil}
}

// changedPredicate returns the bundle with a changed predicate.
func changedPredicate(p *Published, change func(*bundle.Predicate)) *Published {
	change(&p.Predicate)
	return p
}

func withCatalog(p *Published, d digest.Digest) *Published {
	p.CatalogBlob.Digest = d
	return p
}

func TestBundleIsPublishedOnlyForAReason(t *testing.T) {
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	for name, c := range map[string]struct {
		last     *Published
		want     []string // modules resolved
		asked    []string
		runtime  func(Runtime) Runtime
		at       time.Time
		reason   Reason
		removals []string
	}{
		"nothing was published": {nil, []string{"keda"}, []string{"keda"}, nil, noon, ReasonFirst, nil},
		"nothing changed": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(time.Hour), "", nil,
		},
		"a module came": {
			publishedAt(t, noon, nil, "keda"), []string{"keda", "nats"}, []string{"keda", "nats"}, nil, noon,
			ReasonContentChanged, nil,
		},
		"a module is not asked for any more": {
			publishedAt(t, noon, nil, "keda", "nats"), []string{"keda"}, []string{"keda"}, nil, noon,
			ReasonContentChanged, []string{"nats"},
		},
		"a module that was asked for does not resolve and had no version yet": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon, "", nil},
		"a removal stays until it is confirmed": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda", "nats"}, "sha256:last"
				return r
			}, noon, "", []string{"nats"}},
		"a report about an older bundle confirms nothing": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda"}, "sha256:older"
				return r
			}, noon, "", []string{"nats"}},
		"a confirmed removal is dropped without a push of its own": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda"}, "sha256:last"
				return r
			}, noon, "", nil},
		"a module comes back while its removal is pending": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon,
			ReasonRemovalWithdrawn, nil},
		"the runtime has a module that was not published": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed = []string{"keda", "old"}
				return r
			}, noon, ReasonRemovalAdded, []string{"old"}},
		"the registry forgot a module that the control plane remembers": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Remembered = &Memory{Versions: map[string]string{"old": "1.0.0"}}
				return r
			}, noon, ReasonRemovalAdded, []string{"old"}},
		"the runtime's Kyma has a new generation": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.KymaGeneration = 2; return r }, noon, ReasonKymaChanged, nil},
		"the runtime's Kyma was replaced, and has its first generation again": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.KymaSpec = bundle.WishDigest(v1beta2.KymaSpec{Channel: "fast"})
				return r
			}, noon, ReasonKymaChanged, nil},
		"the clock was a year ahead when it was issued": {
			publishedAt(t, noon.AddDate(1, 0, 0), nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon,
			ReasonIssuedAhead, nil},
		"it was some minutes ahead": {
			publishedAt(t, noon.Add(30*time.Minute), nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon, "",
			nil},
		"the cluster became known": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Audience.ClusterUID = "u"; return r }, noon, ReasonAudienceChanged, nil},
		"a client put an older bundle back": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Remembered = &Memory{Epoch: 1, Sequence: noon.Add(time.Minute).UnixMilli()}
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"a sequence of another epoch is none to remember": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Remembered = &Memory{Epoch: 2, Sequence: noon.Add(time.Minute).UnixMilli()}
				return r
			}, noon.Add(time.Hour), "", nil},
		"the runtime has seen a newer bundle than was published": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence = 1, noon.UnixMilli()+1
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"the runtime has accepted another bundle of the same sequence": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence, r.Observed = 1, noon.UnixMilli(), "sha256:lost"
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"the runtime reports one of the far future": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence = 1, math.MaxInt64
				return r
			}, noon.Add(time.Hour), "", nil},
		"the Kyma is deleted": {
			publishedAt(t, noon, nil, "keda"), nil, nil,
			func(r Runtime) Runtime { r.Deleting = true; return r }, noon, ReasonDeleting, []string{"keda"}},
		"its file is carried for longer than the last bundle is valid": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity + time.Hour; return r }, noon, ReasonValidityTooShort, nil},
		"its file is carried for less": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity - time.Hour; return r }, noon, "", nil},
		"just before renewal": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil,
			noon.Add(3*time.Hour - time.Second), "", nil,
		},
		"renewal": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(3 * time.Hour),
			ReasonRenewalDue, nil,
		},
		"the Kyma is back": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.Deleting = true }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonRecreated, nil},
		"another catalog": {
			withCatalog(publishedAt(t, noon, nil, "keda"), "sha256:another"), []string{"keda"}, []string{"keda"}, nil,
			noon, ReasonCatalogChanged, nil},
		"other Secrets": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Sealed = &bundle.Sealed{Revision: "1"}
				return r
			}, noon, ReasonSecretsChanged, nil},
		"a certificate": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Certificate = "pem"; return r }, noon, ReasonCertificateIssued, nil},
		"a new epoch": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.Epoch = 0 }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonEpochChanged, nil},
		"a newer root of trust": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.RootVersion = 0 }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonRootChanged, nil},
		"what the runtime is to do comes before what is due anyway": {
			publishedAt(t, noon, nil, "keda"), []string{"keda", "nats"}, []string{"keda", "nats"}, nil,
			noon.Add(3 * time.Hour), ReasonContentChanged, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := one
			if c.runtime != nil {
				r = c.runtime(r)
			}
			predicate, reason := Next(after(c.last), Wanted{Documents: documents(t, c.want...), Asked: c.asked}, r,
				trusted, validity, c.at)
			if reason != c.reason || !slices.Equal(predicate.Removals, c.removals) {
				t.Errorf("reason %q, removals %v; want %q, %v", reason, predicate.Removals, c.reason, c.removals)
			}
			if c.last != nil && c.last.Predicate.Epoch == trusted.Epoch &&
				predicate.Sequence <= c.last.Predicate.Sequence {
				t.Errorf("sequence %d after %d", predicate.Sequence, c.last.Predicate.Sequence)
			}
		})
	}
}

func TestLastBundleHasALongLifetime(t *testing.T) {
	predicate, _ := Next(after(publishedAt(t, noon, nil, "keda")), Wanted{Documents: documents(t)},
		Runtime{ID: "one", Deleting: true}, trusted, validity, noon)
	if !predicate.Deleting || predicate.ExpiresAt.Sub(predicate.IssuedAt) != lastBundleValidity {
		t.Errorf("deleting %v, life %s", predicate.Deleting, predicate.ExpiresAt.Sub(predicate.IssuedAt))
	}
}

func TestSequencesGrowAlsoWhenTheRegistryForgot(t *testing.T) {
	future := noon.Add(time.Hour).UnixMilli()
	predicate, reason := Next(Adopted{}, Wanted{Documents: documents(t)},
		Runtime{ID: "one", Remembered: &Memory{Epoch: 1, Sequence: future, Digest: "sha256:last"}}, trusted, validity,
		noon)
	if reason != ReasonRegistryDiffers || predicate.Sequence != future+1 || predicate.Previous.Digest != "sha256:last" {
		t.Errorf("reason %q, sequence %d, want %d", reason, predicate.Sequence, future+1)
	}
}

// TestNewEpochRestartsSequences exists because a thief of a publisher's key may have used a sequence that no publisher
// can exceed.
func TestNewEpochRestartsSequences(t *testing.T) {
	ahead := publishedAt(t, noon, nil, "keda")
	ahead.Predicate.Sequence = math.MaxInt64 - 1
	r := Runtime{
		ID: "one", Audience: bundle.Audience{Runtime: "one"},
		Remembered: &Memory{Epoch: 1, Sequence: math.MaxInt64 - 1},
	}
	anew := trust.Root{Version: 2, Epoch: 2}
	predicate, reason := Next(after(ahead), Wanted{Documents: documents(t, "keda"), Asked: []string{"keda"}}, r, anew,
		validity, noon)
	if reason != ReasonEpochChanged || predicate.Epoch != 2 || predicate.Sequence != noon.UnixMilli() {
		t.Fatalf("reason %q, sequence %d of epoch %d", reason, predicate.Sequence, predicate.Epoch)
	}
	// The control plane's record is of the old epoch until its status is written.
	last := &Published{Predicate: predicate, StateBlob: ahead.StateBlob, CatalogBlob: ahead.CatalogBlob}
	if predicate, reason := Next(after(last), Wanted{Documents: documents(t, "keda"), Asked: []string{"keda"}}, r, anew,
		validity, noon); reason != "" {
		t.Errorf("it was pushed once more, as %d", predicate.Sequence)
	}
}

func TestCommitAloneCausesNoBundle(t *testing.T) {
	r := Runtime{
		ID: "one", Audience: bundle.Audience{Runtime: "one"}, Source: &bundle.Source{
			Repository: "https://git.example/fleet", Commit: "b",
		},
	}
	last := publishedAt(t, noon, nil, "keda")
	last.Predicate.Source = &bundle.Source{Repository: "https://git.example/fleet", Commit: "a"}
	if _, reason := Next(after(last), Wanted{Documents: documents(t, "keda"), Asked: []string{"keda"}}, r, trusted,
		validity, noon); reason != "" {
		t.Error("another commit with the same content is published")
	}
	if next, reason := Next(after(last),
		Wanted{Documents: documents(t, "keda", "nats"), Asked: []string{"keda", "nats"}}, r, trusted, validity,
		noon); reason != ReasonContentChanged || next.Source != r.Source {
		t.Errorf("a commit with other content: %q, %+v", reason, next.Source)
	}
}

func TestOtherSecretsAreReasonEnoughForABundle(t *testing.T) {
	d := documents(t, "keda")
	r := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}, Sealed: &bundle.Sealed{Revision: "1"}}
	predicate, _ := Next(Adopted{}, Wanted{Documents: d, Asked: []string{"keda"}}, r, trusted, validity, noon)
	last := &Published{Predicate: predicate, StateBlob: d.State.Descriptor, CatalogBlob: d.Catalog.Descriptor}
	if _, reason := Next(after(last), Wanted{Documents: d, Asked: []string{"keda"}}, r, trusted, validity,
		noon); reason != "" {
		t.Error("the same Secrets make another bundle")
	}
	r.Sealed = &bundle.Sealed{Revision: "2"}
	if next, reason := Next(after(last), Wanted{Documents: d, Asked: []string{"keda"}}, r, trusted, validity,
		noon); reason != ReasonSecretsChanged || next.Sealed != r.Sealed {
		t.Error("other Secrets stay here")
	}
}
