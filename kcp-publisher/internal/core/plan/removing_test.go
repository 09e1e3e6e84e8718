package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

func lastWith(sequence int64, mandatory bool, modules ...string) *PublishedBundle {
	p := &PublishedBundle{Digest: "sha256:last", Predicate: bundle.Predicate{Epoch: 1, Sequence: sequence}}
	for _, module := range modules {
		m := bundle.Manifest{Module: module, Version: "1.0.0"}
		if mandatory {
			m.Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
		}
		p.State.Manifests = append(p.State.Manifests, m)
	}
	return p
}

// lastFor sets the generation of the runtime's Kyma that a bundle was built for.
func lastFor(generation int64, p *PublishedBundle) *PublishedBundle {
	p.Predicate.KymaGeneration = generation
	return p
}

func storedFor(key string, deleting bool) *bundle.Predicate {
	return &bundle.Predicate{Audience: bundle.Audience{KeyThumbprint: key}, Deleting: deleting}
}

func TestRemovalsRequestedByTheRuntimeAreNotHeld(t *testing.T) {
	asks := func(modules ...string) *v1beta2.KymaSpec {
		spec := &v1beta2.KymaSpec{}
		for _, module := range modules {
			spec.Modules = append(spec.Modules, v1beta2.Module{Name: module})
		}
		return spec
	}
	remembers := func(modules ...string) *RecordedBundle {
		m := &RecordedBundle{Epoch: 1, Sequence: 7, Digest: "sha256:last", Versions: map[string]string{}}
		for _, module := range modules {
			m.Versions[module] = "1.0.0"
		}
		return m
	}
	unknown := &Deviation{Reason: v1beta2.ReasonBundleUnknown}
	for name, c := range map[string]struct {
		adopted  Adoption
		next     bundle.Predicate
		runtime  Runtime
		want     []string
		restored bool
	}{
		"removal requested by the runtime": {Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers("keda")}, nil, false},
		"module requested by the runtime": {Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks("keda"), RecordedBundle: remembers("keda")}, []string{"keda"}, false},
		"mandatory module in the last bundle": {Adoption{LastBundle: lastWith(7, true, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers("keda")}, []string{"keda"}, false},
		"mandatory module in the status": {Adoption{}, bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), Mandatory: []string{"keda"}, RecordedBundle: remembers("keda")},
			[]string{"keda"}, false},
		"last bundle was built for the same request": {
			Adoption{LastBundle: lastFor(3, lastWith(7, false, "keda")), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), KymaGeneration: 3, RecordedBundle: remembers("keda")}, []string{"keda"},
			false},
		"last bundle was built for an earlier request": {
			Adoption{LastBundle: lastFor(3, lastWith(7, false, "keda")), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), KymaGeneration: 4, RecordedBundle: remembers("keda")}, nil, false},
		"runtime enrolled before the control plane was rebuilt": {
			Adoption{LastBundle: lastWith(7, false, "keda"), StoredPredicate: storedFor("key", false)},
			bundle.Predicate{Removals: []string{"keda"}}, Runtime{RecordedBundle: &RecordedBundle{}}, []string{"keda"}, true},
		"removal still waits for the first report": {
			Adoption{LastBundle: lastWith(8, false, "keda"), MayKeep: true, StoredPredicate: storedFor("", false)},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{RecordedBundle: remembers("keda"), RemovalsHeldByRestore: []string{"keda"}}, []string{"keda"}, true},
		"Kyma deleted before the first report to a rebuilt control plane": {
			Adoption{LastBundle: lastWith(7, false, "keda"), StoredPredicate: storedFor("key", false)},
			bundle.Predicate{Deleting: true}, Runtime{RecordedBundle: &RecordedBundle{}}, []string{""}, true},
		"Kyma created again and never enrolled": {
			Adoption{LastBundle: lastWith(7, false, "keda"), StoredPredicate: storedFor("key", true)},
			bundle.Predicate{Removals: []string{"keda"}}, Runtime{RecordedBundle: &RecordedBundle{}}, nil, false},
		"removal requested by the control plane's Kyma": {Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, RecordedBundle: remembers("keda")}, []string{"keda"}, false},
		"module removed by the last bundle": {Adoption{
			LastBundle: &PublishedBundle{Predicate: bundle.Predicate{Epoch: 1, Sequence: 7, Removals: []string{"keda"}}},
			MayKeep:    true,
		},
			bundle.Predicate{Removals: []string{"keda"}}, Runtime{IsInUse: true, RecordedBundle: remembers()}, nil, false},
		"runtime never enrolled": {Adoption{LastBundle: lastWith(7, true, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{RecordedBundle: remembers("keda")}, nil, false},
		"deleted Kyma": {Adoption{LastBundle: lastWith(7, true, "keda"), MayKeep: true}, bundle.Predicate{
			Deleting: true, Removals: []string{"keda"},
		},
			Runtime{IsInUse: true, RecordedBundle: remembers("keda")}, []string{""}, false},
		"deleted Kyma with a published last bundle": {Adoption{
			LastBundle: &PublishedBundle{Predicate: bundle.Predicate{Epoch: 1, Sequence: 7, Deleting: true}}, MayKeep: true,
		},
			bundle.Predicate{Deleting: true, Removals: []string{"keda"}}, Runtime{IsInUse: true, RecordedBundle: remembers()},
			nil, false},
		"restored control plane older than the registry": {Adoption{Deviation: unknown},
			bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers()}, []string{"forced"}, true},
		"restored control plane older than the report": {Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks("keda"), RecordedBundle: remembers("keda"), ObservedEpoch: 1,
				ObservedSequence: 8}, []string{"forced"}, true},
		"restored control plane older than the agent's key": {
			Adoption{LastBundle: lastWith(9, false, "keda"), MayKeep: true}, bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks("keda"), RecordedBundle: remembers("keda"), ObservedEpoch: 1,
				ObservedSequence: 8, IsRecordOutdated: true}, []string{"forced"}, true},
		"control plane rebuilt from files": {Adoption{LastBundle: lastWith(7, false, "keda")},
			bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks("keda"), RecordedBundle: &RecordedBundle{}}, []string{"forced"}, true},
		"push not recorded in the status yet": {Adoption{LastBundle: lastWith(8, false, "keda"), MayKeep: true},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers("keda"), ObservedEpoch: 1, ObservedSequence: 8},
			nil, false},
		"restored control plane older than one unrecorded bundle": {
			Adoption{LastBundle: lastWith(8, false, "keda", "forced"), MayKeep: true},
			bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks("keda", "forced"), RecordedBundle: remembers("keda"), ObservedEpoch: 1,
				ObservedSequence: 8}, []string{"forced"}, true},
		"module in the status removed after an unrecorded bundle": {
			Adoption{LastBundle: lastWith(8, false, "keda"), MayKeep: true}, bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks("keda"), RecordedBundle: remembers("keda"), ObservedEpoch: 1,
				ObservedSequence: 8}, []string{"keda"}, false},
		"Kyma created again": {Adoption{
			LastBundle: &PublishedBundle{Predicate: bundle.Predicate{Epoch: 1, Sequence: 9, Deleting: true}},
		},
			bundle.Predicate{Removals: []string{"keda"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: &RecordedBundle{}},
			[]string{"keda"}, false},
		"module is installed and still held after a restore": {Adoption{LastBundle: lastWith(9, false), MayKeep: true},
			bundle.Predicate{Removals: []string{"forced"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers("forced"),
				Installed: []string{"forced"}, RemovalsHeldByRestore: []string{"forced"}}, []string{"forced"}, true},
		"module is not installed anymore after a restore": {Adoption{LastBundle: lastWith(9, false), MayKeep: true},
			bundle.Predicate{Removals: []string{"gone"}},
			Runtime{IsInUse: true, Request: asks(), RecordedBundle: remembers("gone"),
				RemovalsHeldByRestore: []string{"gone"}}, nil, false},
	} {
		c.runtime.IsRequestVerified = true
		got := c.adopted.Removing(c.next, c.runtime)
		var restored []string
		if c.restored {
			restored = c.want
		}
		if !slices.Equal(got.Modules, c.want) || !slices.Equal(got.Restored, restored) {
			t.Errorf("%s: got %q, restored %q, want %q, %q", name, got.Modules, got.Restored, c.want, restored)
		}
		if len(got.Unverified) > 0 {
			t.Errorf("%s: got unverified removals %q, want none", name, got.Unverified)
		}
	}
}

// A restored control plane contains an old request until it accepts a report.
func TestOutdatedRequestsRemoveNoModules(t *testing.T) {
	adopted := Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true}
	next := bundle.Predicate{Removals: []string{"keda"}}
	report := func(instance string) *bundle.AcceptedReport {
		return &bundle.AcceptedReport{Report: bundle.Report{Instance: instance}}
	}
	for name, c := range map[string]struct {
		report *bundle.AcceptedReport
		held   bool
	}{
		"same agent as in the request":  {report("a"), false},
		"agent was restarted":           {report("b"), true},
		"agent of an older version":     {report(""), true},
		"report is not in the registry": {nil, true},
	} {
		kyma := kymaOf("one")
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Key:       &v1beta2.RuntimeKey{Thumbprint: "key"},
			Published: &v1beta2.PublishedBundle{Epoch: 1, Sequence: 7, Digest: "sha256:last"},
			Requested: &v1beta2.RequestedSpec{Generation: 2, Instance: "a"},
		}
		got := adopted.Removing(next, Rules{}.Runtime(kyma, c.report))
		if len(got.Modules) > 0 || len(got.Unverified) > 0 != c.held {
			t.Errorf("%s: got removals %q and unverified removals %q, want unverified %t", name, got.Modules,
				got.Unverified, c.held)
		}
	}
}

func TestApprovalIsValidForOnePendingRemoval(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second)) }
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Removals: []v1beta2.ModuleRemoval{
		{Module: "", Decision: v1beta2.RemovalHeld, Time: at(3), Reason: string(removal.FleetShare)},
		{Module: "keda", Decision: v1beta2.RemovalHeld, Time: at(0), Reason: string(removal.FleetShare)},
	}}
	held := HeldRemovals([]v1beta2.Kyma{*kyma})
	if len(held) != 2 || held[1].Module != "keda" || held[0].ID == held[1].ID {
		t.Fatalf("got held removals %+v, want two with different IDs", held)
	}
	if !Approve(kyma, "keda") || Approve(kyma, "keda") {
		t.Error("the first Approve must change the annotations, the second must not")
	}
	if left := HeldRemovals([]v1beta2.Kyma{*kyma}); len(left) != 1 || left[0].Module != "" {
		t.Errorf("after the approval: got held removals %+v, want only the removal of all modules", left)
	}
	approved := func(module string) bool {
		return CollectPending(kyma, NewRemovals{Modules: []string{module}}, time.Time{})[0].Approved
	}
	if !approved("keda") || approved("") {
		t.Error("the approval does not apply to exactly one removal")
	}
	kyma.Status.Runtime.Removals[1].Time = at(60)
	if approved("keda") {
		t.Error("an old approval applies to a later removal")
	}
}

func TestRemovalDecisionsAreKeptWithinTheWindow(t *testing.T) {
	published := func(removals ...string) *PublishedBundle {
		return &PublishedBundle{Predicate: bundle.Predicate{Removals: removals}}
	}
	before := []v1beta2.ModuleRemoval{{Module: "keda", Decision: v1beta2.RemovalAllowed, Time: metav1.NewTime(noon)}}
	for name, c := range map[string]struct {
		verdict   RemovalDecision
		published *PublishedBundle
		after     time.Duration
		want      []v1beta2.RemovalDecision
		done      bool
	}{
		"removal not published yet": {
			RemovalDecision{RemovedModules: []string{"keda"}}, published(), time.Second,
			[]v1beta2.RemovalDecision{v1beta2.RemovalAllowed}, false,
		},
		"removal published recently": {
			RemovalDecision{}, published("keda"), time.Second, []v1beta2.RemovalDecision{v1beta2.RemovalAllowed}, true,
		},
		"removal published before the window":      {RemovalDecision{}, published("keda"), 25 * time.Hour, nil, false},
		"removal withdrawn before its publication": {RemovalDecision{}, published(), time.Second, nil, false},
		"removal held": {RemovalDecision{HeldReasons: map[string]removal.Reason{"keda": removal.FleetShare}}, published(),
			time.Second,
			[]v1beta2.RemovalDecision{v1beta2.RemovalHeld}, false},
		"removal not decided yet": {
			RemovalDecision{HeldReasons: map[string]removal.Reason{"istio": ""}}, published(), time.Second, nil, false,
		},
	} {
		got := RemovalStatuses(before, c.verdict, c.published, noon.Add(c.after))
		var decisions []v1beta2.RemovalDecision
		for _, d := range got {
			decisions = append(decisions, d.Decision)
			if d.Published != c.done {
				t.Errorf("%s: got published %t, want %t", name, d.Published, c.done)
			}
		}
		if !slices.Equal(decisions, c.want) {
			t.Errorf("%s: got decisions %+v, want %v", name, got, c.want)
		}
	}
	again := RemovalStatuses(RemovalStatuses(nil,
		RemovalDecision{HeldReasons: map[string]removal.Reason{"keda": removal.FleetShare}},
		nil, noon), RemovalDecision{HeldReasons: map[string]removal.Reason{"keda": removal.FleetShare}},
		nil, noon.Add(time.Hour))
	if !again[0].Time.Time.Equal(noon) {
		t.Errorf("removal that is still held: got time %s, want %s", again[0].Time, noon)
	}
}

func enrolledKyma(name string, modules ...string) v1beta2.Kyma {
	kyma := v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: name}}
	published := &v1beta2.PublishedBundle{Versions: map[string]string{}}
	for _, module := range modules {
		published.Versions[module] = "1.0.0"
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: published, Observed: &v1beta2.ObservedBundle{}}
	return kyma
}

func TestRemovalLimitCountsOnlyRuntimesWithModules(t *testing.T) {
	skipped := enrolledKyma("skipped", "keda")
	skipped.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
	deleted := enrolledKyma("deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	neverReported := enrolledKyma("never-reported", "keda")
	neverReported.Status.Runtime.Observed = nil
	for name, c := range map[string]struct {
		kyma   v1beta2.Kyma
		recent []removal.Removal
		want   int
	}{
		"runtime with a module":   {enrolledKyma("one", "keda"), nil, 1},
		"runtime without modules": {enrolledKyma("one"), nil, 0},
		"runtime that lost its only module": {
			enrolledKyma("one"), []removal.Removal{{Runtime: "one", Module: "keda"}}, 1,
		},
		"runtime that never reported":         {neverReported, nil, 0},
		"Kyma without a status":               {v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, nil, 0},
		"Kyma that the publisher skips":       {skipped, nil, 0},
		"deleted Kyma of an enrolled runtime": {deleted, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Rules{}).CountRemovable([]v1beta2.Kyma{c.kyma}, c.recent); got != c.want {
				t.Errorf("got %d runtimes, want %d", got, c.want)
			}
		})
	}
}

// Many Kymas without a runtime must not raise the limit of 10 % of the fleet.
func TestKymasWithoutRuntimesDoNotAllowRemovals(t *testing.T) {
	var kymas []v1beta2.Kyma
	var pending []removal.PendingRemoval
	for i := range 20 {
		kyma := enrolledKyma(fmt.Sprintf("r-%d", i), "keda")
		kymas = append(kymas, kyma)
		pending = append(pending, CollectPending(&kyma, NewRemovals{Modules: []string{"keda"}}, time.Time{})...)
	}
	for _, added := range []int{0, 180, 1800} {
		for i := range added {
			name := fmt.Sprintf("planned-%d-%d", added, i)
			kymas = append(kymas, v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		held := removal.DefaultLimits.Decide(removal.Fleet{Runtimes: Rules{}.CountRemovable(kymas, nil), Pending: pending})
		if len(held) != len(pending) {
			t.Errorf("with %d Kymas, %d of %d removals are held", len(kymas), len(held), len(pending))
		}
	}
}

func TestApprovalByCommitIsValidForOneRemoval(t *testing.T) {
	approved := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	decided := func(published bool, at time.Time) *v1beta2.ModuleRemoval {
		return &v1beta2.ModuleRemoval{Module: "keda", Decision: v1beta2.RemovalApproved, Time: metav1.NewTime(at),
			Published: published}
	}
	for name, c := range map[string]struct {
		approved, now time.Time
		decision      *v1beta2.ModuleRemoval
		want          bool
	}{
		"no approval":                       {time.Time{}, approved, nil, false},
		"approval without a decision":       {approved, approved.Add(time.Minute), nil, true},
		"removal that is not published yet": {approved, approved.Add(time.Minute), decided(false, approved), true},
		"removal that is published":         {approved, approved.Add(time.Hour), decided(true, approved), false},
		"earlier removal": {
			approved, approved.Add(time.Hour), decided(true, approved.Add(-time.Hour)), true,
		},
		"approval from the day before": {approved, approved.Add(removal.MaxWindow), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := enrolledKyma("one", "keda")
			if c.decision != nil {
				kyma.Status.Runtime.Removals = []v1beta2.ModuleRemoval{*c.decision}
			}
			if got := IsApprovedByCommit(&kyma, "keda", c.approved, c.now); got != c.want {
				t.Errorf("got approved %t, want %t", got, c.want)
			}
		})
	}
}

func TestUnrecordedModulesAreCountedSeparately(t *testing.T) {
	adopted := Adoption{LastBundle: lastWith(7, false, "keda"), MayKeep: true}
	found := adopted.Removing(bundle.Predicate{Removals: []string{"invented", "istio", "keda", "warden"}}, Runtime{
		IsInUse: true, Mandatory: []string{"warden"},
		PublishedVersions: map[string]string{"istio": "1.0.0"},
		RecordedBundle:    &RecordedBundle{Versions: map[string]string{"istio": "1.0.0", "invented": "1.0.0"}},
	})
	if want := []string{"invented"}; len(found.Modules) != 4 || !slices.Equal(found.Unrecorded, want) {
		t.Errorf("got removals %q, unrecorded %q, want four removals, unrecorded %q", found.Modules, found.Unrecorded, want)
	}
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Removals: RemovalStatuses(nil,
		RemovalDecision{Allowed: found.Modules, Unrecorded: found.Unrecorded}, nil, noon)}
	recorded, unrecorded := RecentRemovals(kyma, noon.Add(-time.Minute))
	if len(recorded) != 3 || !slices.Equal(unrecorded, []removal.Removal{{Runtime: "one", Module: "invented"}}) {
		t.Errorf("got recent removals %v, unrecorded %v, want three recorded ones", recorded, unrecorded)
	}
}

// The publisher used the spec of the control plane's Kyma until an operator removed the label. The runtime's own spec
// never contained the module.
func TestRemovalAfterEndOfOwnSpecCountsTowardLimits(t *testing.T) {
	kyma := enrolledKyma("one", "keda")
	kyma.Status.Runtime.Requested = &v1beta2.RequestedSpec{Generation: 3}
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for generation, want := range map[int64]int{3: 1, 2: 0} {
		kyma.Status.Runtime.Published.KymaGeneration = generation
		if got := PendingRemovals(&kyma, snapshot); len(got) != want {
			t.Errorf("bundle for generation %d: got pending removals %q, want %d", generation, got, want)
		}
	}
}
