package plan

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func bundleOf(epoch, sequence int64, d digest.Digest, previous *bundle.Position, version string) *PublishedBundle {
	return &PublishedBundle{
		Predicate: bundle.Predicate{Epoch: epoch, Sequence: sequence, Previous: previous}, Digest: d,
		State:    bundle.DesiredState{Manifests: []bundle.Manifest{{Name: "keda", Module: "keda", Version: version}}},
		Versions: map[string]string{"keda": version},
	}
}

func rootOf(t *testing.T, epoch int64) (trust.Root, string) {
	t.Helper()
	maker := trusttest.NewRootFixture(t)
	root := maker.First()
	root.Epoch = epoch
	public, err := maker.Publisher.PublicKey()
	maker.Must(err)
	thumbprint, err := trust.Thumbprint(public)
	maker.Must(err)
	return root, thumbprint
}

func TestRecordTakesPrecedenceOverRegistry(t *testing.T) {
	root, key := rootOf(t, 2)
	remembered := &RecordedBundle{Epoch: 2, Sequence: 70, Digest: "sha256:seven",
		Versions: map[string]string{"keda": "1.8.0"}}
	after := &bundle.Position{Sequence: 70, Digest: "sha256:seven"}
	own := bundleOf(2, 70, "sha256:seven", nil, "1.8.0")
	clock, ahead := noon.UnixMilli(), noon.AddDate(0, 0, 3).UnixMilli()
	for name, c := range map[string]struct {
		own        *PublishedBundle
		remembered *RecordedBundle
		stored     StoredBundle
		last       digest.Digest // digest of LastBundle, or empty
		keep       bool
		sequence   int64
		deviation  string
	}{
		"recorded bundle": {nil, remembered, StoredBundle{"sha256:seven", own, key, true}, "sha256:seven", true, 70, ""},
		"recorded bundle signed by a rotated-out key": {
			nil, remembered, StoredBundle{"sha256:seven", own, "retired", true}, "sha256:seven", true, 70, "",
		},
		"recorded bundle without its documents": {
			nil, remembered, StoredBundle{"sha256:seven", own, key, false}, "", false, 70, v1beta2.ReasonBundleIncomplete,
		},
		"registry lost the recorded bundle": {
			nil, remembered, StoredBundle{}, "", false, 70, v1beta2.ReasonBundleMissing,
		},
		"registry lost the bundle of a running publisher": {
			own, remembered, StoredBundle{}, "sha256:seven", true, 70, v1beta2.ReasonBundleMissing,
		},
		"older bundle": {
			nil, remembered, StoredBundle{"sha256:six", bundleOf(2, 60, "sha256:six", nil, "1.7.0"), key, true}, "", false,
			70, v1beta2.ReasonBundleReplayed,
		},
		"bundle older than the running publisher's bundle": {
			own, remembered, StoredBundle{"sha256:six", bundleOf(2, 60, "sha256:six", nil, "1.7.0"), key, true},
			"sha256:seven", true, 70, v1beta2.ReasonBundleReplayed},
		"different bundle with the recorded sequence": {
			nil, remembered, StoredBundle{"sha256:other", bundleOf(2, 70, "sha256:other", nil, "1.7.0"), key, true}, "",
			false, 70, v1beta2.ReasonBundleReplayed,
		},
		"newer sequence of an earlier epoch": {
			nil, remembered, StoredBundle{"sha256:nine", bundleOf(1, 90, "sha256:nine", after, "1.7.0"), key, true}, "",
			false, 70, v1beta2.ReasonBundleReplayed,
		},
		"unrecorded next bundle after a crash": {
			nil, remembered, StoredBundle{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, true},
			"sha256:eight", true, 80, "",
		},
		"next bundle whose push response was lost": {
			own, remembered, StoredBundle{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, true},
			"sha256:eight", true, 80, "",
		},
		"unrecorded next bundle signed by a rotated-out key": {
			nil, remembered, StoredBundle{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), "retired", true},
			"", false, 70, v1beta2.ReasonBundleForeign},
		"unrecorded next bundle without its documents": {
			nil, remembered, StoredBundle{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, false}, "",
			false, 80, v1beta2.ReasonBundleIncomplete},
		"bundle with an unknown predecessor": {
			nil, remembered,
			StoredBundle{"sha256:nine",
				bundleOf(2, 90, "sha256:nine", &bundle.Position{Sequence: 80, Digest: "sha256:eight"}, "1.9.0"), key,
				true}, "", false, 90, v1beta2.ReasonBundleUnknown},
		"sequence in the far future": {
			nil, remembered,
			StoredBundle{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", after, "1.9.0"), key, true}, "", false, 70,
			v1beta2.ReasonBundleAhead},
		"next bundle after a sequence in the future": {
			nil, &RecordedBundle{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"}, StoredBundle{
				"sha256:eight",
				bundleOf(2, ahead+1, "sha256:eight", &bundle.Position{Sequence: ahead, Digest: "sha256:seven"},
					"1.9.0"), key, true,
			},
			"sha256:eight", true, ahead + 1, ""},
		"bundle from another publisher after a sequence in the future": {
			nil, &RecordedBundle{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"},
			StoredBundle{"sha256:nine", bundleOf(2, ahead+2, "sha256:nine", nil, "1.9.0"), key, true}, "", false, ahead + 2,
			v1beta2.ReasonBundleUnknown},
		"sequence far ahead of a sequence in the future": {
			nil, &RecordedBundle{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"},
			StoredBundle{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", nil, "1.9.0"), key, true}, "", false, ahead,
			v1beta2.ReasonBundleAhead},
		"bundle without a signature of the fleet": {
			nil, remembered, StoredBundle{Digest: "sha256:x"}, "", false, 70, v1beta2.ReasonBundleForeign,
		},
		"newer bundle from another publisher that the status records": {
			own, &RecordedBundle{Epoch: 2, Sequence: 90, Digest: "sha256:nine"},
			StoredBundle{"sha256:nine", bundleOf(2, 90, "sha256:nine", nil, "1.9.0"), key, true}, "sha256:nine", true, 90,
			""},
		"bundle without a record is only compared": {
			nil, &RecordedBundle{}, StoredBundle{"sha256:nine", bundleOf(2, clock, "sha256:nine", nil, "1.9.0"), key, true},
			"sha256:nine", false, clock, ""},
		"sequence in the far future without a record": {
			nil, nil, StoredBundle{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", nil, "1.9.0"), key, true}, "",
			false, 0, v1beta2.ReasonBundleAhead},
		"bundle signed by a rotated-out key without a record": {
			nil, nil, StoredBundle{"sha256:nine", bundleOf(2, clock, "sha256:nine", nil, "1.9.0"), "retired", true}, "",
			false, 0, v1beta2.ReasonBundleForeign},
		"bundle from an earlier epoch without a record": {
			nil, nil, StoredBundle{"sha256:old", bundleOf(1, 60, "sha256:old", nil, "1.7.0"), key, true}, "", false, 0, ""},
		"empty registry without a record": {nil, &RecordedBundle{}, StoredBundle{}, "", false, 0, ""},
		"recorded bundle from an earlier epoch": {
			nil, &RecordedBundle{Epoch: 1, Sequence: math.MaxInt64 - 1, Digest: "sha256:old"},
			StoredBundle{"sha256:old", bundleOf(1, math.MaxInt64-1, "sha256:old", nil, "1.7.0"), "retired", true},
			"sha256:old", true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Adopt(c.own, c.remembered, c.stored, root, noon)
			last, deviation := digest.Digest(""), ""
			if got.LastBundle != nil {
				last = got.LastBundle.Digest
			}
			if got.Deviation != nil {
				deviation = got.Deviation.Reason
			}
			if last != c.last || got.MayKeep != c.keep || got.Sequence != c.sequence || deviation != c.deviation {
				t.Errorf("got last %q, keep %v, sequence %d, deviation %+v, want %q, %v, %d, %q", last, got.MayKeep,
					got.Sequence, got.Deviation, c.last, c.keep, c.sequence, c.deviation)
			}
		})
	}
}

func TestUnrecordedBundleBlocksTheNextBundle(t *testing.T) {
	last := bundleOf(1, 7, "sha256:seven", nil, "1.0.0")
	for name, c := range map[string]struct {
		adopted    Adoption
		remembered *RecordedBundle
		want       bool
	}{
		"last bundle is recorded": {Adoption{LastBundle: last, MayKeep: true},
			&RecordedBundle{Digest: "sha256:seven"}, false},
		"last bundle is not recorded": {Adoption{LastBundle: last, MayKeep: true},
			&RecordedBundle{Digest: "sha256:six"}, true},
		"first bundle is not recorded":      {Adoption{LastBundle: last, MayKeep: true}, &RecordedBundle{}, true},
		"last bundle may be an old one":     {Adoption{LastBundle: last}, &RecordedBundle{}, false},
		"Kyma from a file without a record": {Adoption{LastBundle: last, MayKeep: true}, nil, false},
		"no bundle was published":           {Adoption{}, &RecordedBundle{}, false},
	} {
		if got := c.adopted.IsUnrecorded(c.remembered); got != c.want {
			t.Errorf("%s: got unrecorded %t, want %t", name, got, c.want)
		}
	}
}

func TestRollbackStaysInBundlesUntilAccepted(t *testing.T) {
	published := func(r ...bundle.Rollback) *PublishedBundle {
		p := bundleOf(1, 7, "sha256:seven", nil, "1.7.0")
		p.Predicate.Rollback = r
		return p
	}
	for name, c := range map[string]struct {
		kept            *PublishedBundle
		granted, wanted map[string]string
		observed        digest.Digest
		want            []bundle.Rollback
	}{
		"module upgraded": {
			nil, map[string]string{"keda": "1.7.0"}, map[string]string{"keda": "1.8.0"}, "", nil,
		},
		"module rolled back": {
			nil, map[string]string{"keda": "1.8.0", "nats": "2.0.0"},
			map[string]string{"keda": "1.7.0", "nats": "2.0.0"}, "", []bundle.Rollback{
				{Module: "keda", From: "1.8.0", To: "1.7.0"},
			},
		},
		"module removed": {nil, map[string]string{"keda": "1.8.0"}, map[string]string{}, "", nil},
		"rollback not accepted yet": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.8.0", To: "1.7.0"},
			},
		},
		"rollback accepted": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:seven", nil,
		},
		"second rollback before the first is accepted": {
			published(bundle.Rollback{Module: "keda", From: "1.9.0", To: "1.8.0"}), map[string]string{"keda": "1.8.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.9.0", To: "1.7.0"},
			},
		},
		"upgrade beyond the rolled-back version": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.8.1"}, "sha256:six", nil,
		},
		"upgrade below the rolled-back version": {
			published(bundle.Rollback{Module: "keda", From: "1.9.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.8.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.9.0", To: "1.8.0"},
			},
		},
	} {
		got := after(c.kept).lastStatements(nil).nextRollbacks(c.granted, c.wanted, c.observed)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestUnresolvedModuleKeepsItsVersion(t *testing.T) {
	p := bundleOf(1, 8, "sha256:eight", nil, "1.9.0")
	p.Predicate.Removals = []string{"gone"}
	got := versionsAfter(p, map[string]string{"keda": "1.8.0", "gone": "1.0.0", "lost": "2.0.0"})
	if want := map[string]string{"keda": "1.9.0", "lost": "2.0.0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReportedVersionOverridesRecordedVersion(t *testing.T) {
	published := &v1beta2.PublishedBundle{
		Epoch:    1,
		Sequence: 70,
		Digest:   "sha256:seven",
		Versions: map[string]string{"keda": "1.1.0"},
	}
	former := &bundle.Observed{Epoch: 1, Sequence: 69, Digest: "sha256:six"}
	for name, c := range map[string]struct {
		published *v1beta2.PublishedBundle
		observed  *bundle.Observed
		refused   []bundle.RefusedBundle
		version   string
		want      string
	}{
		"recorded bundle applied": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.2.0", "1.1.0",
		},
		"runtime without a record": {nil, nil, nil, "1.2.0", "1.2.0"},
		"newer bundle applied": {
			published, &bundle.Observed{Epoch: 1, Sequence: 71, Digest: "sha256:lost"}, nil, "1.2.0", "1.2.0",
		},
		"newer bundle applied with an older version": {
			published, &bundle.Observed{Epoch: 1, Sequence: 71, Digest: "sha256:lost"}, nil, "1.0.0", "1.1.0",
		},
		"agent lost its bundle": {published, nil, nil, "1.2.0", "1.2.0"},
		"recorded bundle refused as a downgrade": {
			published, former, []bundle.RefusedBundle{{Digest: "sha256:seven", Reason: refusal.Downgrade}}, "1.2.0",
			"1.2.0",
		},
		"recorded bundle refused because it is for an earlier key": {
			published, former, []bundle.RefusedBundle{{Digest: "sha256:seven", Reason: refusal.WrongCluster}}, "1.2.0", "1.2.0",
		},
		"unrecorded bundle refused as a downgrade": {
			published, former, []bundle.RefusedBundle{{Digest: "sha256:six", Reason: refusal.Downgrade}}, "1.2.0", "1.1.0",
		},
		"runtime chose a newer version": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.2.0", "1.2.0",
		},
		"runtime chose an older version": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.0.0", "1.1.0",
		},
		"recorded bundle refused as a rollback": {
			published, former, []bundle.RefusedBundle{{Digest: "sha256:seven", Reason: refusal.Rollback}}, "1.2.0",
			"1.1.0",
		},
	} {
		var decided []string
		if strings.HasPrefix(name, "runtime chose") {
			decided = []string{"keda"}
		}
		report := &bundle.AcceptedReport{
			Report: bundle.Report{
				Decided:  decided,
				Observed: c.observed,
				Refused:  c.refused,
				Modules:  []bundle.ReportedModule{{Name: "keda", Version: c.version}},
			},
		}
		if got := grantedVersions(&v1beta2.RuntimeStatus{Published: c.published}, report)["keda"]; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestRestoreKeepsVersionOfModuleWithoutManifest(t *testing.T) {
	published := &v1beta2.PublishedBundle{
		Epoch: 1, Sequence: 70, Digest: "sha256:backup", Versions: map[string]string{"keda": "1.1.0"},
	}
	report := &bundle.AcceptedReport{Report: bundle.Report{
		Observed: &bundle.Observed{Epoch: 1, Sequence: 71, Digest: "sha256:lost"},
		Modules:  []bundle.ReportedModule{{Name: "keda", Wanted: "1.2.0", State: v1beta2.StateProcessing}},
	}}
	if got := grantedVersions(&v1beta2.RuntimeStatus{Published: published}, report)["keda"]; got != "1.2.0" {
		t.Errorf("got version %s, want 1.2.0", got)
	}
}

func TestNewRollbackTriggersPublishing(t *testing.T) {
	r := Runtime{
		ID:             "one",
		Audience:       bundle.Audience{Runtime: "one"},
		RecordedBundle: &RecordedBundle{Versions: map[string]string{"keda": "2.0.0"}},
	}
	wanted := ResolvedBundle{
		Documents:      documents(t, "keda"),
		RequestedNames: []string{"keda"},
		Versions:       map[string]string{"keda": "1.0.0"},
	}
	last := publishedAt(t, noon, nil, "keda")
	next, reason := NextBundle(after(last), wanted, r, trusted, validity, noon)
	if reason != ReasonRollbackAdded || len(next.Rollback) != 1 {
		t.Fatalf("got reason %q and rollbacks %+v, want %s and one rollback", reason, next.Rollback,
			ReasonRollbackAdded)
	}
	last.Predicate.Rollback = next.Rollback
	if _, reason := NextBundle(after(last), wanted, r, trusted, validity, noon); reason != "" {
		t.Errorf("the next bundle has reason %q, want none", reason)
	}
}

func TestUnresolvedModuleKeepsItsRollout(t *testing.T) {
	known := &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
		Versions: map[string]string{
			"keda": "1.8.0",
		}, Given: map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1"}},
	}}
	for name, c := range map[string]struct {
		versions map[string]string
		want     string
	}{
		"module with the recorded version": {map[string]string{"keda": "1.8.0"}, "keda-regular-1"},
		"module that is not requested":     {map[string]string{}, ""},
		"module with a different version":  {map[string]string{"keda": "1.9.0"}, ""},
		"bundle with unknown versions":     {nil, ""},
	} {
		given := (&View{}).SelectedVersions("one", PublishedBundle{Versions: c.versions},
			&v1beta2.Kyma{Status: v1beta2.KymaStatus{Runtime: known}})
		if got := given["keda"].Rollout; got != c.want {
			t.Errorf("%s: got rollout %q, want %q", name, got, c.want)
		}
	}
}

// The commit and the certificate must be in the status, so that operators can read them without access to the
// registry.
func TestRecordContainsCommitAndCertificate(t *testing.T) {
	last := bundleOf(1, 70, "sha256:seven", nil, "1.7.0")
	if record := last.StatusEntry(); record.Commit != "" || record.Certificate != nil {
		t.Errorf("bundle without commit and certificate: got %q, %v", record.Commit, record.Certificate)
	}
	agent := trusttest.NewSigner(t)
	text, err := trust.IssueCertificate(agent, "", "one", trust.Kyma{}, trusttest.PublicKey(t, agent), noon,
		noon.Add(90*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	last.Predicate.Source, last.Predicate.Certificate = &bundle.Source{
		Repository: "https://git.example/fleet",
		Commit:     "0123456789abcdef",
	}, text
	record := last.StatusEntry()
	if life := record.Certificate; record.Commit != "0123456789abcdef" || life == nil ||
		!life.NotBefore.Time.Equal(noon) ||
		!life.NotAfter.Time.Equal(noon.Add(90*24*time.Hour)) {
		t.Errorf("got commit %q and certificate %v, want the commit and the certificate's validity", record.Commit,
			record.Certificate)
	}
	for _, broken := range []string{"no certificate", strings.Replace(text, "MI", "AA", 1)} {
		last.Predicate.Certificate = broken
		if life := last.StatusEntry().Certificate; life != nil {
			t.Errorf("invalid certificate %q has validity %v", broken, life)
		}
	}
}

// The owner of the registry deletes or replaces the last bundle. The next bundle must then repeat the removals and
// rollbacks in the Kyma's status.
func TestRecordedRemovalsAndRollbacksReplaceLostBundle(t *testing.T) {
	last := bundleOf(1, 70, "sha256:seven", nil, "1.7.0")
	last.Predicate.Removals = []string{"nats"}
	last.Predicate.Rollback = []bundle.Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}
	record := last.StatusEntry()
	status := &v1beta2.RuntimeStatus{Published: &record}
	kyma := kymaOf("one")
	kyma.Status.Runtime = status
	r := Rules{}.Runtime(kyma, nil)
	wanted := ResolvedBundle{
		Documents:      documents(t, "keda"),
		RequestedNames: []string{"keda"},
		Versions:       map[string]string{"keda": "1.7.0"},
	}
	next, reason := NextBundle(Adoption{Deviation: &Deviation{Reason: v1beta2.ReasonBundleMissing}}, wanted, r, trusted,
		validity, noon)
	if reason != ReasonRegistryDiffers || !slices.Equal(next.Removals, []string{"nats"}) ||
		!slices.Equal(next.Rollback, last.Predicate.Rollback) {
		t.Errorf("got reason %q, removals %v, rollbacks %+v, want those of the recorded bundle", reason, next.Removals,
			next.Rollback)
	}
	r.Observed, r.Installed = "sha256:seven", []string{"keda"}
	if next, _ := NextBundle(Adoption{}, wanted, r, trusted, validity, noon); len(next.Removals)+len(next.Rollback) != 0 {
		t.Errorf("after the runtime accepted the bundle: got removals %v, rollback %+v", next.Removals, next.Rollback)
	}
}
