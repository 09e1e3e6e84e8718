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

// bundleOf returns a bundle of keda in a version, with a position of its own.
func bundleOf(epoch, sequence int64, d digest.Digest, previous *bundle.Position, version string) *Published {
	return &Published{
		Predicate: bundle.Predicate{Epoch: epoch, Sequence: sequence, Previous: previous}, Digest: d,
		State:    bundle.DesiredState{Manifests: []bundle.Manifest{{Name: "keda", Module: "keda", Version: version}}},
		Versions: map[string]string{"keda": version},
	}
}

// rootOf returns a root of an epoch with one publisher key, and that key's thumbprint.
func rootOf(t *testing.T, epoch int64) (trust.Root, string) {
	t.Helper()
	maker := trusttest.NewMaker(t)
	root := maker.First()
	root.Epoch = epoch
	public, err := maker.Publisher.PublicKey()
	maker.Must(err)
	thumbprint, err := trust.Thumbprint(public)
	maker.Must(err)
	return root, thumbprint
}

func TestRegistryOnlyConfirmsRecordedBundles(t *testing.T) {
	root, key := rootOf(t, 2)
	remembered := &Memory{Epoch: 2, Sequence: 70, Digest: "sha256:seven", Versions: map[string]string{"keda": "1.8.0"}}
	after := &bundle.Position{Sequence: 70, Digest: "sha256:seven"}
	own := bundleOf(2, 70, "sha256:seven", nil, "1.8.0")
	clock, ahead := noon.UnixMilli(), noon.AddDate(0, 0, 3).UnixMilli()
	for name, c := range map[string]struct {
		own        *Published
		remembered *Memory
		stored     Stored
		last       digest.Digest // of Last, empty for none
		keep       bool
		sequence   int64
		deviation  string
	}{
		"what is remembered": {nil, remembered, Stored{"sha256:seven", own, key, true}, "sha256:seven", true, 70, ""},
		"what is remembered, by a key that was rotated out since": {
			nil, remembered, Stored{"sha256:seven", own, "retired", true}, "sha256:seven", true, 70, "",
		},
		"what is remembered, without its documents": {
			nil, remembered, Stored{"sha256:seven", own, key, false}, "", false, 70, v1beta2.ReasonBundleIncomplete,
		},
		"nothing any more": {
			nil, remembered, Stored{}, "", false, 70, v1beta2.ReasonBundleMissing,
		},
		"nothing any more, while the publisher runs": {
			own, remembered, Stored{}, "sha256:seven", true, 70, v1beta2.ReasonBundleMissing,
		},
		"an older bundle": {
			nil, remembered, Stored{"sha256:six", bundleOf(2, 60, "sha256:six", nil, "1.7.0"), key, true}, "", false,
			70, v1beta2.ReasonBundleReplayed,
		},
		"an older bundle, while the publisher runs": {
			own, remembered, Stored{"sha256:six", bundleOf(2, 60, "sha256:six", nil, "1.7.0"), key, true},
			"sha256:seven", true, 70, v1beta2.ReasonBundleReplayed},
		"another bundle of the same sequence": {
			nil, remembered, Stored{"sha256:other", bundleOf(2, 70, "sha256:other", nil, "1.7.0"), key, true}, "",
			false, 70, v1beta2.ReasonBundleReplayed,
		},
		"a newer bundle of a former epoch": {
			nil, remembered, Stored{"sha256:nine", bundleOf(1, 90, "sha256:nine", after, "1.7.0"), key, true}, "",
			false, 70, v1beta2.ReasonBundleReplayed,
		},
		"the next one, which a crash left": {
			nil, remembered, Stored{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, true},
			"sha256:eight", true, 80, "",
		},
		"the next one, whose answer was lost": {
			own, remembered, Stored{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, true},
			"sha256:eight", true, 80, "",
		},
		"the next one, by a key that was rotated out": {
			nil, remembered, Stored{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), "retired", true},
			"", false, 70, v1beta2.ReasonBundleForeign},
		"the next one, without its documents": {
			nil, remembered, Stored{"sha256:eight", bundleOf(2, 80, "sha256:eight", after, "1.9.0"), key, false}, "",
			false, 80, v1beta2.ReasonBundleIncomplete},
		"one that follows no remembered one": {
			nil, remembered,
			Stored{"sha256:nine",
				bundleOf(2, 90, "sha256:nine", &bundle.Position{Sequence: 80, Digest: "sha256:eight"}, "1.9.0"), key,
				true}, "", false, 90, v1beta2.ReasonBundleUnknown},
		"one whose sequence is ahead of the time": {
			nil, remembered,
			Stored{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", after, "1.9.0"), key, true}, "", false, 70,
			v1beta2.ReasonBundleAhead},
		"the next one after one of a clock that was ahead": {
			nil, &Memory{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"}, Stored{
				"sha256:eight",
				bundleOf(2, ahead+1, "sha256:eight", &bundle.Position{Sequence: ahead, Digest: "sha256:seven"},
					"1.9.0"), key, true,
			},
			"sha256:eight", true, ahead + 1, ""},
		"one of another publisher after one of a clock that was ahead": {
			nil, &Memory{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"},
			Stored{"sha256:nine", bundleOf(2, ahead+2, "sha256:nine", nil, "1.9.0"), key, true}, "", false, ahead + 2,
			v1beta2.ReasonBundleUnknown},
		"one far ahead of one of a clock that was ahead": {
			nil, &Memory{Epoch: 2, Sequence: ahead, Digest: "sha256:seven"},
			Stored{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", nil, "1.9.0"), key, true}, "", false, ahead,
			v1beta2.ReasonBundleAhead},
		"something of a stranger": {
			nil, remembered, Stored{Digest: "sha256:x"}, "", false, 70, v1beta2.ReasonBundleForeign,
		},
		"another publisher's newer bundle, known by the status": {
			own, &Memory{Epoch: 2, Sequence: 90, Digest: "sha256:nine"},
			Stored{"sha256:nine", bundleOf(2, 90, "sha256:nine", nil, "1.9.0"), key, true}, "sha256:nine", true, 90,
			""},
		"one that is compared, as nothing is remembered": {
			nil, &Memory{}, Stored{"sha256:nine", bundleOf(2, clock, "sha256:nine", nil, "1.9.0"), key, true},
			"sha256:nine", false, clock, ""},
		"one of a stranger's sequence, as nothing is remembered": {
			nil, nil, Stored{"sha256:far", bundleOf(2, math.MaxInt64-1, "sha256:far", nil, "1.9.0"), key, true}, "",
			false, 0, v1beta2.ReasonBundleAhead},
		"one by a retired key, as nothing is remembered": {
			nil, nil, Stored{"sha256:nine", bundleOf(2, clock, "sha256:nine", nil, "1.9.0"), "retired", true}, "",
			false, 0, v1beta2.ReasonBundleForeign},
		"one of the time before a new epoch, as nothing is remembered": {
			nil, nil, Stored{"sha256:old", bundleOf(1, 60, "sha256:old", nil, "1.7.0"), key, true}, "", false, 0, ""},
		"nothing, as nothing is remembered": {nil, &Memory{}, Stored{}, "", false, 0, ""},
		"what is remembered of a former epoch": {
			nil, &Memory{Epoch: 1, Sequence: math.MaxInt64 - 1, Digest: "sha256:old"},
			Stored{"sha256:old", bundleOf(1, math.MaxInt64-1, "sha256:old", nil, "1.7.0"), "retired", true},
			"sha256:old", true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Adopt(c.own, c.remembered, c.stored, root, noon)
			last, deviation := digest.Digest(""), ""
			if got.Last != nil {
				last = got.Last.Digest
			}
			if got.Deviation != nil {
				deviation = got.Deviation.Reason
			}
			if last != c.last || got.Keep != c.keep || got.Sequence != c.sequence || deviation != c.deviation {
				t.Errorf("last %q, keep %v, sequence %d, deviation %+v", last, got.Keep, got.Sequence, got.Deviation)
			}
		})
	}
}

func TestUnrecordedBundleHoldsTheNextOne(t *testing.T) {
	last := bundleOf(1, 7, "sha256:seven", nil, "1.0.0")
	for name, c := range map[string]struct {
		adopted    Adopted
		remembered *Memory
		want       bool
	}{
		"remembered":                {Adopted{Last: last, Keep: true}, &Memory{Digest: "sha256:seven"}, false},
		"not remembered":            {Adopted{Last: last, Keep: true}, &Memory{Digest: "sha256:six"}, true},
		"the first, not remembered": {Adopted{Last: last, Keep: true}, &Memory{}, true},
		"only compared with":        {Adopted{Last: last}, &Memory{}, false},
		"without a record":          {Adopted{Last: last, Keep: true}, nil, false},
		"there is none":             {Adopted{}, &Memory{}, false},
	} {
		if got := c.adopted.Unrecorded(c.remembered); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestRollbackStaysInBundlesUntilAccepted(t *testing.T) {
	published := func(r ...bundle.Rollback) *Published {
		p := bundleOf(1, 7, "sha256:seven", nil, "1.7.0")
		p.Predicate.Rollback = r
		return p
	}
	for name, c := range map[string]struct {
		kept            *Published
		granted, wanted map[string]string
		observed        digest.Digest
		want            []bundle.Rollback
	}{
		"nothing goes back": {
			nil, map[string]string{"keda": "1.7.0"}, map[string]string{"keda": "1.8.0"}, "", nil,
		},
		"a module goes back": {
			nil, map[string]string{"keda": "1.8.0", "nats": "2.0.0"},
			map[string]string{"keda": "1.7.0", "nats": "2.0.0"}, "", []bundle.Rollback{
				{Module: "keda", From: "1.8.0", To: "1.7.0"},
			},
		},
		"a module is removed": {nil, map[string]string{"keda": "1.8.0"}, map[string]string{}, "", nil},
		"it was reported before": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.8.0", To: "1.7.0"},
			},
		},
		"it was accepted": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:seven", nil,
		},
		"it goes back twice": {
			published(bundle.Rollback{Module: "keda", From: "1.9.0", To: "1.8.0"}), map[string]string{"keda": "1.8.0"},
			map[string]string{"keda": "1.7.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.9.0", To: "1.7.0"},
			},
		},
		"it went forward again": {
			published(bundle.Rollback{Module: "keda", From: "1.8.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.8.1"}, "sha256:six", nil,
		},
		"it went a part forward": {
			published(bundle.Rollback{Module: "keda", From: "1.9.0", To: "1.7.0"}), map[string]string{"keda": "1.7.0"},
			map[string]string{"keda": "1.8.0"}, "sha256:six", []bundle.Rollback{
				{Module: "keda", From: "1.9.0", To: "1.8.0"},
			},
		},
	} {
		got := after(c.kept).stated(nil).rollbacks(c.granted, c.wanted, c.observed)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAssignedVersionSurvivesAnUnresolvedModule(t *testing.T) {
	p := bundleOf(1, 8, "sha256:eight", nil, "1.9.0")
	p.Predicate.Removals = []string{"gone"}
	got := versionsAfter(p, map[string]string{"keda": "1.8.0", "gone": "1.0.0", "lost": "2.0.0"})
	if want := map[string]string{"keda": "1.9.0", "lost": "2.0.0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReportedVersionsCountAgainstRecordedOnes(t *testing.T) {
	published := &v1beta2.PublishedBundle{
		Epoch:    1,
		Sequence: 70,
		Digest:   "sha256:seven",
		Versions: map[string]string{"keda": "1.1.0"},
	}
	for name, c := range map[string]struct {
		published *v1beta2.PublishedBundle
		observed  *bundle.Observed
		refused   []bundle.RefusedBundle
		version   string
		want      string
	}{
		"it is remembered otherwise": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.2.0", "1.1.0",
		},
		"nothing is remembered": {nil, nil, nil, "1.2.0", "1.2.0"},
		"it has a newer bundle": {
			published, &bundle.Observed{Epoch: 1, Sequence: 71, Digest: "sha256:lost"}, nil, "1.2.0", "1.2.0",
		},
		"it has a newer bundle with an older one": {
			published, &bundle.Observed{Epoch: 1, Sequence: 71, Digest: "sha256:lost"}, nil, "1.0.0", "1.1.0",
		},
		"it refuses the remembered one": {
			published, nil, []bundle.RefusedBundle{{Digest: "sha256:seven", Reason: refusal.Downgrade}}, "1.2.0",
			"1.2.0",
		},
		"it refuses another one": {
			published, nil, []bundle.RefusedBundle{{Digest: "sha256:six", Reason: refusal.Downgrade}}, "1.2.0", "1.1.0",
		},
		"it chose a newer one by itself": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.2.0", "1.2.0",
		},
		"it chose an older one by itself": {
			published, &bundle.Observed{Epoch: 1, Sequence: 70, Digest: "sha256:seven"}, nil, "1.0.0", "1.1.0",
		},
		"it refuses the remembered one as too old": {
			published, nil, []bundle.RefusedBundle{{Digest: "sha256:seven", Reason: refusal.Rollback}}, "1.2.0",
			"1.1.0",
		},
	} {
		var decided []string
		if strings.HasPrefix(name, "it chose") {
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

func TestMissingRollbackCausesABundle(t *testing.T) {
	r := Runtime{
		ID:         "one",
		Audience:   bundle.Audience{Runtime: "one"},
		Remembered: &Memory{Versions: map[string]string{"keda": "2.0.0"}},
	}
	wanted := Wanted{
		Documents: documents(t, "keda"),
		Asked:     []string{"keda"},
		Versions:  map[string]string{"keda": "1.0.0"},
	}
	last := publishedAt(t, noon, nil, "keda")
	next, reason := Next(after(last), wanted, r, trusted, validity, noon)
	if reason != ReasonRollbackAdded || len(next.Rollback) != 1 {
		t.Fatalf("reason %q, rollback %+v", reason, next.Rollback)
	}
	last.Predicate.Rollback = next.Rollback
	if _, reason := Next(after(last), wanted, r, trusted, validity, noon); reason != "" {
		t.Errorf("it is reported again because of %q", reason)
	}
}

func TestRolloutOfAVersionSurvivesAnUnresolvedModule(t *testing.T) {
	known := &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
		Versions: map[string]string{
			"keda": "1.8.0",
		}, Given: map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1"}},
	}}
	for name, c := range map[string]struct {
		versions map[string]string
		want     string
	}{
		"it keeps its version":     {map[string]string{"keda": "1.8.0"}, "keda-regular-1"},
		"it is not asked for":      {map[string]string{}, ""},
		"it has another version":   {map[string]string{"keda": "1.9.0"}, ""},
		"nothing is known of them": {nil, ""},
	} {
		given := (&View{}).Given("one", Published{Versions: c.versions}, known)
		if got := given["keda"].Rollout; got != c.want {
			t.Errorf("%s: given by %q, want %q", name, got, c.want)
		}
	}
}

// TestRecordHasTheBundlesCommitAndCertificate checks two fields for operators without access to the registry.
func TestRecordHasTheBundlesCommitAndCertificate(t *testing.T) {
	last := bundleOf(1, 70, "sha256:seven", nil, "1.7.0")
	if record := last.Record(); record.Commit != "" || record.Certificate != nil {
		t.Errorf("of a bundle with neither: %q, %v", record.Commit, record.Certificate)
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
	record := last.Record()
	if life := record.Certificate; record.Commit != "0123456789abcdef" || life == nil ||
		!life.NotBefore.Time.Equal(noon) ||
		!life.NotAfter.Time.Equal(noon.Add(90*24*time.Hour)) {
		t.Errorf("%q, %v", record.Commit, record.Certificate)
	}
	for _, broken := range []string{"no certificate", strings.Replace(text, "MI", "AA", 1)} {
		last.Predicate.Certificate = broken
		if life := last.Record().Certificate; life != nil {
			t.Errorf("%q holds until %v", broken, life)
		}
	}
}

// TestRecordSurvivesTheLastBundle exists because the owner of the registry can delete it, or replace it.
func TestRecordSurvivesTheLastBundle(t *testing.T) {
	last := bundleOf(1, 70, "sha256:seven", nil, "1.7.0")
	last.Predicate.Removals = []string{"nats"}
	last.Predicate.Rollback = []bundle.Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}
	record := last.Record()
	status := &v1beta2.RuntimeStatus{Published: &record}
	kyma := kymaOf("one")
	kyma.Status.Runtime = status
	r := Rules{}.Runtime(kyma, nil)
	wanted := Wanted{
		Documents: documents(t, "keda"),
		Asked:     []string{"keda"},
		Versions:  map[string]string{"keda": "1.7.0"},
	}
	next, reason := Next(Adopted{Deviation: &Deviation{Reason: v1beta2.ReasonBundleMissing}}, wanted, r, trusted,
		validity, noon)
	if reason != ReasonRegistryDiffers || !slices.Equal(next.Removals, []string{"nats"}) ||
		!slices.Equal(next.Rollback, last.Predicate.Rollback) {
		t.Errorf("reason %q, removals %v, rollback %+v", reason, next.Removals, next.Rollback)
	}
	r.Observed, r.Installed = "sha256:seven", []string{"keda"}
	if next, _ := Next(Adopted{}, wanted, r, trusted, validity, noon); len(next.Removals)+len(next.Rollback) != 0 {
		t.Errorf("once the runtime has accepted it: removals %v, rollback %+v", next.Removals, next.Rollback)
	}
}
