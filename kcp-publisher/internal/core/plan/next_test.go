package plan

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func publishedAt(t *testing.T, at time.Time, removals []string, modules ...string) *PublishedBundle {
	d := documents(t, modules...)
	predicate, _ := NextBundle(Adoption{}, ResolvedBundle{Documents: d, RequestedNames: modules},
		Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}, trusted, validity, at)
	predicate.Removals = removals
	p := &PublishedBundle{
		Predicate: predicate, Digest: "sha256:last", StateBlob: d.State.Descriptor, CatalogBlob: d.Catalog.Descriptor,
	}
	for _, m := range modules {
		p.State.Manifests = append(p.State.Manifests, bundle.Manifest{Name: m, Module: m, Version: "1.0.0"})
	}
	return p
}

func after(last *PublishedBundle) Adoption {
	return Adoption{LastBundle: last, MayKeep: last != nil}
}

func changedPredicate(p *PublishedBundle, change func(*bundle.Predicate)) *PublishedBundle {
	change(&p.Predicate)
	return p
}

func withCatalog(p *PublishedBundle, d digest.Digest) *PublishedBundle {
	p.CatalogBlob.Digest = d
	return p
}

func TestBundleIsPublishedOnlyForAReason(t *testing.T) {
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	for name, c := range map[string]struct {
		last     *PublishedBundle
		want     []string
		asked    []string
		runtime  func(Runtime) Runtime
		at       time.Time
		reason   Reason
		removals []string
	}{
		"first bundle": {nil, []string{"keda"}, []string{"keda"}, nil, noon, ReasonFirst, nil},
		"unchanged bundle": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(time.Hour), "", nil,
		},
		"Kyma with an additional module": {
			publishedAt(t, noon, nil, "keda"), []string{"keda", "nats"}, []string{"keda", "nats"}, nil, noon,
			ReasonContentChanged, nil,
		},
		"module no longer requested": {
			publishedAt(t, noon, nil, "keda", "nats"), []string{"keda"}, []string{"keda"}, nil, noon,
			ReasonContentChanged, []string{"nats"},
		},
		"unresolved module without a version": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon, "", nil},
		"removal that the runtime has not confirmed": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda", "nats"}, "sha256:last"
				return r
			}, noon, "", []string{"nats"}},
		"removal with a report about an older bundle": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda"}, "sha256:older"
				return r
			}, noon, "", []string{"nats"}},
		"removal that the runtime has confirmed": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed, r.Observed = []string{"keda"}, "sha256:last"
				return r
			}, noon, "", nil},
		"module requested again during its removal": {
			publishedAt(t, noon, []string{"nats"}, "keda"), []string{"keda"}, []string{"keda", "nats"}, nil, noon,
			ReasonRemovalWithdrawn, nil},
		"installed module that was not published": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Installed = []string{"keda", "old"}
				return r
			}, noon, ReasonRemovalAdded, []string{"old"}},
		"recorded module missing in the registry's bundle": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.RecordedBundle = &RecordedBundle{Versions: map[string]string{"old": "1.0.0"}}
				return r
			}, noon, ReasonRemovalAdded, []string{"old"}},
		"new generation of the runtime's Kyma": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.KymaGeneration = 2; return r }, noon, ReasonKymaChanged, nil},
		"recreated Kyma with the same generation": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.KymaSpec = bundle.RequestDigest(v1beta2.KymaSpec{Channel: "fast"})
				return r
			}, noon, ReasonKymaChanged, nil},
		"last bundle issued a year in the future": {
			publishedAt(t, noon.AddDate(1, 0, 0), nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon,
			ReasonIssuedAhead, nil},
		"last bundle issued minutes in the future": {
			publishedAt(t, noon.Add(30*time.Minute), nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon, "",
			nil},
		"cluster UID reported for the first time": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Audience.ClusterUID = "u"; return r }, noon, ReasonAudienceChanged, nil},
		"last bundle older than the recorded one": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.RecordedBundle = &RecordedBundle{Epoch: 1, Sequence: noon.Add(time.Minute).UnixMilli()}
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"recorded sequence of another epoch": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.RecordedBundle = &RecordedBundle{Epoch: 2, Sequence: noon.Add(time.Minute).UnixMilli()}
				return r
			}, noon.Add(time.Hour), "", nil},
		"runtime reports a newer sequence": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence = 1, noon.UnixMilli()+1
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"runtime reports another bundle with the same sequence": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence, r.Observed = 1, noon.UnixMilli(), "sha256:lost"
				return r
			}, noon.Add(time.Hour), ReasonSequenceBehind, nil},
		"runtime reports a sequence in the far future": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.ObservedEpoch, r.ObservedSequence = 1, math.MaxInt64
				return r
			}, noon.Add(time.Hour), "", nil},
		"Kyma deleted": {
			publishedAt(t, noon, nil, "keda"), nil, nil,
			func(r Runtime) Runtime { r.IsDeleting = true; return r }, noon, ReasonDeleting, []string{"keda"}},
		"last bundle expires during its transport": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity + time.Hour; return r }, noon, ReasonValidityTooShort, nil},
		"last bundle does not expire during its transport": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Validity = validity - time.Hour; return r }, noon, "", nil},
		"less than a third of the validity has passed": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil,
			noon.Add(3*time.Hour - time.Second), "", nil,
		},
		"a third of the validity has passed": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"}, nil, noon.Add(3 * time.Hour),
			ReasonRenewalDue, nil,
		},
		"Kyma created again": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.Deleting = true }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonRecreated, nil},
		"catalog changed": {
			withCatalog(publishedAt(t, noon, nil, "keda"), "sha256:another"), []string{"keda"}, []string{"keda"}, nil,
			noon, ReasonCatalogChanged, nil},
		"Secrets changed": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime {
				r.Sealed = &bundle.Sealed{Revision: "1"}
				return r
			}, noon, ReasonSecretsChanged, nil},
		"new certificate": {
			publishedAt(t, noon, nil, "keda"), []string{"keda"}, []string{"keda"},
			func(r Runtime) Runtime { r.Certificate = "pem"; return r }, noon, ReasonCertificateIssued, nil},
		"new epoch": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.Epoch = 0 }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonEpochChanged, nil},
		"newer root of trust": {
			changedPredicate(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.RootVersion = 0 }),
			[]string{"keda"},
			[]string{"keda"}, nil, noon, ReasonRootChanged, nil},
		"content changed and a third of the validity has passed": {
			publishedAt(t, noon, nil, "keda"), []string{"keda", "nats"}, []string{"keda", "nats"}, nil,
			noon.Add(3 * time.Hour), ReasonContentChanged, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := one
			if c.runtime != nil {
				r = c.runtime(r)
			}
			predicate, reason := NextBundle(after(c.last),
				ResolvedBundle{Documents: documents(t, c.want...), RequestedNames: c.asked}, r,
				trusted, validity, c.at)
			if reason != c.reason || !slices.Equal(predicate.Removals, c.removals) {
				t.Errorf("got reason %q, removals %v, want %q, %v", reason, predicate.Removals, c.reason, c.removals)
			}
			if c.last != nil && c.last.Predicate.Epoch == trusted.Epoch &&
				predicate.Sequence <= c.last.Predicate.Sequence {
				t.Errorf("got sequence %d, want one after %d", predicate.Sequence, c.last.Predicate.Sequence)
			}
		})
	}
}

func TestFinalBundleOfDeletedKymaIsValidForAYear(t *testing.T) {
	predicate, _ := NextBundle(after(publishedAt(t, noon, nil, "keda")), ResolvedBundle{Documents: documents(t)},
		Runtime{ID: "one", IsDeleting: true}, trusted, validity, noon)
	if !predicate.Deleting || predicate.ExpiresAt.Sub(predicate.IssuedAt) != lastBundleValidity {
		t.Errorf("got deleting %t and validity %s, want true and %s", predicate.Deleting,
			predicate.ExpiresAt.Sub(predicate.IssuedAt), lastBundleValidity)
	}
}

func TestSequencesIncreaseAfterRegistryDataLoss(t *testing.T) {
	future := noon.Add(time.Hour).UnixMilli()
	predicate, reason := NextBundle(Adoption{}, ResolvedBundle{Documents: documents(t)},
		Runtime{ID: "one", RecordedBundle: &RecordedBundle{Epoch: 1, Sequence: future, Digest: "sha256:last"}}, trusted,
		validity,
		noon)
	if reason != ReasonRegistryDiffers || predicate.Sequence != future+1 || predicate.Previous.Digest != "sha256:last" {
		t.Errorf("got reason %q, sequence %d, want sequence %d", reason, predicate.Sequence, future+1)
	}
}

// An attacker with a stolen publisher key has published a bundle with the highest possible sequence number.
func TestNewEpochRestartsSequences(t *testing.T) {
	ahead := publishedAt(t, noon, nil, "keda")
	ahead.Predicate.Sequence = math.MaxInt64 - 1
	r := Runtime{
		ID: "one", Audience: bundle.Audience{Runtime: "one"},
		RecordedBundle: &RecordedBundle{Epoch: 1, Sequence: math.MaxInt64 - 1},
	}
	rotated := trust.Root{Version: 2, Epoch: 2}
	predicate, reason := NextBundle(after(ahead),
		ResolvedBundle{Documents: documents(t, "keda"), RequestedNames: []string{"keda"}}, r,
		rotated, validity, noon)
	if reason != ReasonEpochChanged || predicate.Epoch != 2 || predicate.Sequence != noon.UnixMilli() {
		t.Fatalf("got reason %q, sequence %d of epoch %d, want %s, %d of epoch 2", reason, predicate.Sequence,
			predicate.Epoch, ReasonEpochChanged, noon.UnixMilli())
	}
	// The Kyma's status has not been updated yet and still contains a bundle from the old epoch.
	last := &PublishedBundle{Predicate: predicate, StateBlob: ahead.StateBlob, CatalogBlob: ahead.CatalogBlob}
	if predicate, reason := NextBundle(after(last),
		ResolvedBundle{Documents: documents(t, "keda"), RequestedNames: []string{"keda"}}, r,
		rotated, validity, noon); reason != "" {
		t.Errorf("the bundle is pushed again with sequence %d", predicate.Sequence)
	}
}

// An operator can export a bundle immediately before its renewal.
func TestCarriedBundleIsValidInTransitUntilItsRenewal(t *testing.T) {
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Name: "ship", Annotations: map[string]string{v1beta2.AnnotationCarried: "2160h"},
	}}
	r := Rules{}.Runtime(kyma, nil)
	r.RecordedBundle = nil
	wanted := ResolvedBundle{Documents: documents(t, "keda"), RequestedNames: []string{"keda"}}
	predicate, _ := NextBundle(Adoption{}, wanted, r, trusted, r.Validity, noon)
	last := publishedAt(t, noon, nil, "keda")
	last.Predicate = predicate
	for now := noon; ; now = now.Add(time.Hour) {
		if _, reason := NextBundle(after(last), wanted, r, trusted, r.Validity, now); reason == ReasonRenewalDue {
			break
		} else if reason != "" {
			t.Fatalf("got reason %q", reason)
		}
		if left := predicate.ExpiresAt.Sub(now); left < 2160*time.Hour {
			t.Fatalf("after %s, the bundle is valid for %s, want at least 2160h", now.Sub(noon), left)
		}
	}
}

func TestNewCommitWithoutChangesDoesNotTriggerPublishing(t *testing.T) {
	r := Runtime{
		ID: "one", Audience: bundle.Audience{Runtime: "one"}, Source: &bundle.Source{
			Repository: "https://git.example/fleet", Commit: "b",
		},
	}
	last := publishedAt(t, noon, nil, "keda")
	last.Predicate.Source = &bundle.Source{Repository: "https://git.example/fleet", Commit: "a"}
	if _, reason := NextBundle(after(last),
		ResolvedBundle{Documents: documents(t, "keda"), RequestedNames: []string{"keda"}}, r, trusted,
		validity, noon); reason != "" {
		t.Error("a new commit with the same content causes a bundle")
	}
	if next, reason := NextBundle(after(last),
		ResolvedBundle{Documents: documents(t, "keda", "nats"), RequestedNames: []string{"keda", "nats"}}, r, trusted,
		validity,
		noon); reason != ReasonContentChanged || next.Source != r.Source {
		t.Errorf("commit with other content: got reason %q and source %+v, want %s and %+v", reason, next.Source,
			ReasonContentChanged, r.Source)
	}
}

func TestChangedSecretsTriggerPublishing(t *testing.T) {
	d := documents(t, "keda")
	r := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}, Sealed: &bundle.Sealed{Revision: "1"}}
	predicate, _ := NextBundle(Adoption{}, ResolvedBundle{Documents: d, RequestedNames: []string{"keda"}}, r, trusted,
		validity, noon)
	last := &PublishedBundle{Predicate: predicate, StateBlob: d.State.Descriptor, CatalogBlob: d.Catalog.Descriptor}
	if _, reason := NextBundle(after(last), ResolvedBundle{Documents: d, RequestedNames: []string{"keda"}}, r, trusted,
		validity,
		noon); reason != "" {
		t.Error("unchanged Secrets cause a bundle")
	}
	r.Sealed = &bundle.Sealed{Revision: "2"}
	if next, reason := NextBundle(after(last), ResolvedBundle{Documents: d, RequestedNames: []string{"keda"}}, r,
		trusted, validity,
		noon); reason != ReasonSecretsChanged || next.Sealed != r.Sealed {
		t.Error("changed Secrets do not cause a bundle that contains them")
	}
}
