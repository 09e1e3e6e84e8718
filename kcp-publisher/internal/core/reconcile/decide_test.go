package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

type world struct {
	newest, admitted, bundle, report, published, renewed Result
	mustPersist                                          bool
}

var answering = world{Yes, Yes, Yes, Yes, Yes, Yes, false}

func run(f Facts, w world) (State, []Action) {
	var taken []Action
	for range 20 {
		state, action := Decide(f)
		taken = append(taken, action)
		switch action {
		case End:
			return state, taken
		case ReadNewestDigest:
			f.Newest = w.newest
		case AddFinalizer:
			f.HasFinalizer = true
		case Admit:
			f.Admitted = w.admitted
		case CheckBundle:
			f.Bundle = w.bundle
		case FetchReport:
			f.Report = w.report
		case RecordReport:
			f.Recorded, f.MustPersist = Yes, w.mustPersist
		case Persist:
			f.Persisted = Yes
		case Publish:
			f.Published = w.published
		case Renew:
			f.Renewed = w.renewed
		}
	}
	return "", taken
}

func TestReconcileActionsDependOnFacts(t *testing.T) {
	known := Facts{HasView: true, HasFinalizer: true}
	with := func(change func(*Facts)) Facts {
		f := known
		change(&f)
		return f
	}
	answers := func(change func(*world)) world {
		w := answering
		change(&w)
		return w
	}
	for name, c := range map[string]struct {
		facts Facts
		world world
		state State
		taken []Action
	}{
		"new Kyma": {
			Facts{HasView: true}, answering, Due,
			[]Action{AddFinalizer, Admit, FetchReport, RecordReport, Publish, End},
		},
		"settled Kyma": {with(func(f *Facts) { f.IsSettled = true }), answering, Settled, []Action{ReadNewestDigest, End}},
		"settled Kyma with a new report": {with(func(f *Facts) { f.IsSettled = true }),
			answers(func(w *world) { w.newest = No }), Due,
			[]Action{ReadNewestDigest, Admit, FetchReport, RecordReport, Publish, End}},
		"report with new data that must survive a crash": {
			known, answers(func(w *world) { w.mustPersist = true }), Due,
			[]Action{Admit, FetchReport, RecordReport, Persist, Publish, End},
		},
		"new report that changes nothing": {
			with(func(f *Facts) { f.IsUnchanged = true }), answering, Settled, []Action{Admit, FetchReport, End},
		},
		"settled Kyma with a requested reconcile": {
			with(func(f *Facts) { f.IsSettled, f.IsUnchanged, f.Requested = true, true, true }), answering, Due,
			[]Action{Admit, FetchReport, RecordReport, Publish, End},
		},
		"settled Kyma that needs a new bundle": {
			with(func(f *Facts) { f.IsSettled, f.Pending = true, true }), answering, Due,
			[]Action{Admit, FetchReport, RecordReport, Publish, End},
		},
		"report postponed after a restart": {
			with(func(f *Facts) { f.CanPostpone = true }), answering, Settled, []Action{Admit, CheckBundle, End},
		},
		"outdated bundle overrides a postponed report": {with(func(f *Facts) { f.CanPostpone = true }),
			answers(func(w *world) { w.bundle = No }), Due,
			[]Action{Admit, CheckBundle, FetchReport, RecordReport, Publish, End}},
		"refused Kyma": {
			known, answers(func(w *world) { w.admitted = No }), Refused, []Action{Admit, End},
		},
		"deleted Kyma without a finalizer": {Facts{HasView: true, IsDeleted: true}, answering, Gone, []Action{End}},
		"Kyma during a registry backoff": {
			with(func(f *Facts) { f.InBackoff = true }), answering, Unreachable, []Action{End},
		},
		"requested reconcile during a registry backoff": {
			with(func(f *Facts) { f.InBackoff, f.Requested = true, true }), answering, Due,
			[]Action{Admit, FetchReport, RecordReport, Publish, End},
		},
		"registry that does not respond to the request for the report": {
			known, answers(func(w *world) { w.report = Down }), Unreachable, []Action{Admit, FetchReport, End},
		},
		"registry that does not respond to the push of the bundle": {
			known, answers(func(w *world) { w.published = Down }), Unreachable,
			[]Action{Admit, FetchReport, RecordReport, Publish, End},
		},
		"state of the control plane not read yet": {Facts{}, answering, Unknown, []Action{End}},
		"brief partial change to the control plane": {
			Facts{ChangingFor: HoldTimeout - 1, HasFinalizer: true}, answering, Unknown, []Action{End},
		},
		"long partial change to the control plane": {
			Facts{ChangingFor: HoldTimeout, HasFinalizer: true}, answering, Held, []Action{Admit, FetchReport, Renew, End},
		},
		"long partial change to the control plane, registry does not respond to the renewal": {
			Facts{ChangingFor: HoldTimeout, HasFinalizer: true},
			answers(func(w *world) { w.renewed = Down }), Unreachable,
			[]Action{Admit, FetchReport, Renew, End}},
		"long partial change to the control plane, refused Kyma": {Facts{ChangingFor: HoldTimeout, HasFinalizer: true},
			answers(func(w *world) { w.admitted = No }), Held,
			[]Action{Admit, End}},
		"long partial change to the control plane during a registry backoff": {
			Facts{ChangingFor: time.Hour, HasFinalizer: true, InBackoff: true}, answering, Unreachable, []Action{End},
		},
		"long partial change to the control plane, registry does not respond": {
			Facts{ChangingFor: time.Hour, HasFinalizer: true}, answers(func(w *world) { w.report = Down }), Unreachable,
			[]Action{Admit, FetchReport, End},
		},
		"long partial change to the control plane, new Kyma": {
			Facts{ChangingFor: HoldTimeout}, answering, Held, []Action{AddFinalizer, Admit, FetchReport, Renew, End},
		},
		"long partial change to the control plane, new Kyma that is deleted": {
			Facts{ChangingFor: HoldTimeout, IsDeleted: true}, answering, Gone, []Action{End},
		},
	} {
		state, taken := run(c.facts, c.world)
		if state != c.state || !slices.Equal(taken, c.taken) {
			t.Errorf("%s: got state %q after %v, want %q after %v", name, state, taken, c.state, c.taken)
		}
	}
}

func TestRandomReconcileDecisionsKeepGuarantees(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	flip := func() bool { return random.IntN(2) == 0 }
	one := func(results ...Result) Result { return results[random.IntN(len(results))] }
	states := map[State]int{}
	for range 100_000 {
		f := Facts{
			HasView: flip(), ChangingFor: time.Duration(random.IntN(3)) * HoldTimeout / 2 * 2, IsDeleted: flip(),
			HasFinalizer: flip(), Requested: flip(), Pending: flip(),
			InBackoff: flip(), IsSettled: flip(), CanPostpone: flip(), IsUnchanged: flip(),
		}
		w := world{one(Yes, No), one(Yes, No), one(Yes, No), one(Yes, Down), one(Yes, Down), one(Yes, No, Down), flip()}
		state, taken := run(f, w)
		states[state]++
		index := func(action Action) int { return slices.Index(taken, action) }
		took := func(action Action) bool { return index(action) >= 0 }
		for rule, broken := range map[string]bool{
			"every reconcile ends in a state": state == "",
			"each action is taken at most once": len(
				slices.Compact(slices.Sorted(slices.Values(taken)))) != len(taken),
			"nothing is published without a complete catalog":     took(Publish) && !f.HasView,
			"a complete catalog publishes instead of renewing":    took(Renew) && f.HasView,
			"nothing is renewed for a Kyma that is not admitted":  took(Renew) && w.admitted != Yes,
			"nothing is published to a Kyma that is not admitted": took(Publish) && (!took(Admit) || w.admitted != Yes),
			"nothing is published without a finalizer":            took(Publish) && !f.HasFinalizer && !took(AddFinalizer),
			"no report is recorded without a finalizer":           took(FetchReport) && !f.HasFinalizer && !took(AddFinalizer),
			"nothing is published without the report": took(Publish) &&
				(!took(FetchReport) || w.report != Yes),
			"nothing is published before new data is stored": took(Publish) && (!took(RecordReport) ||
				took(Persist) != w.mustPersist || w.mustPersist && index(Persist) > index(Publish)),
			"a deleted Kyma gets no finalizer": took(AddFinalizer) && f.IsDeleted,
			"the registry is not called during a backoff": f.InBackoff && !f.Requested &&
				(took(ReadNewestDigest) || took(FetchReport) || took(CheckBundle) || took(Publish) || took(Renew)),
			"a requested reconcile does not use cached results": f.Requested && state == Settled && !f.CanPostpone,
			"pending work does not end with a poll":             f.Pending && took(ReadNewestDigest),
			"state Due requires a publish action":               state == Due && !took(Publish),
			"state Refused requires an admission":               state == Refused && !took(Admit),
			"state Settled requires a response from the registry": state == Settled &&
				(took(FetchReport) && w.report == Down || took(Publish) && w.published == Down),
		} {
			if broken {
				t.Fatalf("%s: %+v with results %+v ends in state %q after %v", rule, f, w, state, taken)
			}
		}
	}
	if fmt.Sprint(len(states)) != "7" {
		t.Errorf("the random facts reach states %v, want all 7", states)
	}
}
