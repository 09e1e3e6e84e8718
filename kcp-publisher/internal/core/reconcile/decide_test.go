package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// world answers the actions of a reconcile.
type world struct{ newest, admitted, bundle, report, published, renewed Result }

var answering = world{Yes, Yes, Yes, Yes, Yes, Yes}

// run takes actions until the reconcile ends.
func run(f Facts, w world) (State, []Action) {
	var taken []Action
	for range 20 {
		state, action := Decide(f)
		taken = append(taken, action)
		switch action {
		case End:
			return state, taken
		case AskNewest:
			f.Newest = w.newest
		case AddFinalizer:
			f.Finalizer = true
		case Admit:
			f.Admitted = w.admitted
		case CheckBundle:
			f.Bundle = w.bundle
		case FetchReport:
			f.Report = w.report
		case Publish:
			f.Published = w.published
		case Renew:
			f.Renewed = w.renewed
		}
	}
	return "", taken
}

func TestDecide(t *testing.T) {
	known := Facts{View: true, Finalizer: true}
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
		"a new Kyma": {Facts{View: true}, answering, Due, []Action{AddFinalizer, Admit, FetchReport, Publish, End}},
		"at rest":    {with(func(f *Facts) { f.Settled = true }), answering, Settled, []Action{AskNewest, End}},
		"at rest with a new report": {with(func(f *Facts) { f.Settled = true }),
			answers(func(w *world) { w.newest = No }), Due,
			[]Action{AskNewest, Admit, FetchReport, Publish, End}},
		"a heartbeat": {
			with(func(f *Facts) { f.Unchanged = true }), answering, Settled, []Action{Admit, FetchReport, End},
		},
		"a requested reconcile": {with(func(f *Facts) { f.Settled, f.Unchanged, f.Requested = true, true, true }),
			answering, Due,
			[]Action{Admit, FetchReport, Publish, End}},
		"pending work": {
			with(func(f *Facts) { f.Settled, f.Pending = true, true }), answering, Due,
			[]Action{Admit, FetchReport, Publish, End},
		},
		"after a restart": {
			with(func(f *Facts) { f.Postponed = true }), answering, Settled, []Action{Admit, CheckBundle, End},
		},
		"after a restart with another bundle": {with(func(f *Facts) { f.Postponed = true }),
			answers(func(w *world) { w.bundle = No }), Due,
			[]Action{Admit, CheckBundle, FetchReport, Publish, End}},
		"a refused Kyma": {
			known, answers(func(w *world) { w.admitted = No }), Refused, []Action{Admit, End},
		},
		"a deleted Kyma without a finalizer": {Facts{View: true, Deleted: true}, answering, Gone, []Action{End}},
		"a backoff": {
			with(func(f *Facts) { f.Backoff = true }), answering, Unreachable, []Action{End},
		},
		"a requested reconcile in a backoff": {with(func(f *Facts) { f.Backoff, f.Requested = true, true }), answering,
			Due,
			[]Action{Admit, FetchReport, Publish, End}},
		"no answer for the report": {
			known, answers(func(w *world) { w.report = Down }), Unreachable, []Action{Admit, FetchReport, End},
		},
		"no answer for the bundle": {
			known, answers(func(w *world) { w.published = Down }), Unreachable,
			[]Action{Admit, FetchReport, Publish, End},
		},
		"an unknown control plane": {Facts{}, answering, Unknown, []Action{End}},
		"a short change": {
			Facts{Changing: HoldSettles - 1, Finalizer: true}, answering, Unknown, []Action{End},
		},
		"a long change": {
			Facts{Changing: HoldSettles, Finalizer: true}, answering, Held, []Action{Admit, FetchReport, Renew, End},
		},
		"a long change and no answer for the renewal": {Facts{Changing: HoldSettles, Finalizer: true},
			answers(func(w *world) { w.renewed = Down }), Unreachable,
			[]Action{Admit, FetchReport, Renew, End}},
		"a long change and a refused Kyma": {Facts{Changing: HoldSettles, Finalizer: true},
			answers(func(w *world) { w.admitted = No }), Held,
			[]Action{Admit, End}},
		"a long change and a backoff": {
			Facts{Changing: time.Hour, Finalizer: true, Backoff: true}, answering, Unreachable, []Action{End},
		},
		"a long change and no answer": {Facts{Changing: time.Hour}, answers(func(w *world) { w.report = Down }),
			Unreachable,
			[]Action{Admit, FetchReport, End}},
	} {
		state, taken := run(c.facts, c.world)
		if state != c.state || !slices.Equal(taken, c.taken) {
			t.Errorf("%s: ends as %q after %v, want %q after %v", name, state, taken, c.state, c.taken)
		}
	}
}

// TestDecideKeepsItsGuarantees takes random facts and answers.
func TestDecideKeepsItsGuarantees(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	flip := func() bool { return random.IntN(2) == 0 }
	one := func(results ...Result) Result { return results[random.IntN(len(results))] }
	states := map[State]int{}
	for range 100_000 {
		f := Facts{
			View: flip(), Changing: time.Duration(random.IntN(3)) * HoldSettles / 2 * 2, Deleted: flip(),
			Finalizer: flip(), Requested: flip(), Pending: flip(),
			Backoff: flip(), Settled: flip(), Postponed: flip(), Unchanged: flip(),
		}
		w := world{one(Yes, No), one(Yes, No), one(Yes, No), one(Yes, Down), one(Yes, Down), one(Yes, No, Down)}
		state, taken := run(f, w)
		states[state]++
		took := func(action Action) bool { return slices.Contains(taken, action) }
		for rule, broken := range map[string]bool{
			"every reconcile ends in a state": state == "",
			"no action is taken twice": len(
				slices.Compact(slices.Sorted(slices.Values(taken)))) != len(taken),
			"nothing is published without a complete view":        took(Publish) && !f.View,
			"a complete view publishes, and does not only renew":  took(Renew) && f.View,
			"nothing is renewed for a Kyma that is not admitted":  took(Renew) && w.admitted != Yes,
			"nothing is published to a Kyma that is not admitted": took(Publish) && (!took(Admit) || w.admitted != Yes),
			"nothing is published without a finalizer":            took(Publish) && !f.Finalizer && !took(AddFinalizer),
			"nothing is published without the report": took(Publish) &&
				(!took(FetchReport) || w.report != Yes),
			"a deleted Kyma gets no finalizer": took(AddFinalizer) && f.Deleted,
			"the registry is not asked in a backoff": f.Backoff && !f.Requested &&
				(took(AskNewest) || took(FetchReport) || took(CheckBundle) || took(Publish) || took(Renew)),
			"a request is not answered from memory": f.Requested && state == Settled && !f.Postponed,
			"pending work is not settled by a poll": f.Pending && took(AskNewest),
			"a status with news needs a bundle":     state == Due && !took(Publish),
			"a refusal needs a check":               state == Refused && !took(Admit),
			"no answer is no health": state == Settled &&
				(took(FetchReport) && w.report == Down || took(Publish) && w.published == Down),
		} {
			if broken {
				t.Fatalf("%s: %+v with %+v ends as %q after %v", rule, f, w, state, taken)
			}
		}
	}
	if fmt.Sprint(len(states)) != "7" {
		t.Errorf("the histories reach the states %v, want all 7", states)
	}
}
