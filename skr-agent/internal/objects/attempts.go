package objects

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Failure is an object that could not be written.
type Failure struct {
	// Kind and Name are those of the object, and Module the one whose Manifest was to be written, empty for other objects.
	Kind, Name, Module string
	// Err names the object.
	Err error
}

// Outcome is what could not be written, sorted by message, and when that is worth another try: 0 for never.
type Outcome struct {
	Failures []Failure
	Retry    time.Duration
	// PhaseDone is the digest of the bundle whose phase of a takeover was done whole, and Removed are the leftovers of
	// lifecycle-manager that were removed since the agent started.
	PhaseDone string
	Removed   []bundle.ObjectRef
}

// Err returns all failures in one error, nil for none.
func (o Outcome) Err() error {
	all := make([]error, len(o.Failures))
	for i, f := range o.Failures {
		all[i] = f.Err
	}
	return errors.Join(all...)
}

// attempts remembers which objects could not be written, each with a backoff of its own: neither does an object that is
// refused cost an API request in every round, nor does it keep others from being written. Another bundle is tried at
// once.
type attempts struct {
	failed map[string]*attempt
	// bundle is the one that is being written, now the time, and seen the objects that this bundle is about.
	bundle string
	now    time.Time
	seen   map[string]bool
}

type attempt struct {
	Failure
	bundle  string
	backoff wait.Backoff
	next    time.Time
}

// firstRetry and slowestRetry bound the time to the next try.
const (
	firstRetry   = time.Second
	slowestRetry = time.Minute
)

func (a *attempts) begin(bundle string, now time.Time) {
	if a.failed == nil {
		a.failed = map[string]*attempt{}
	}
	a.bundle, a.now, a.seen = bundle, now, map[string]bool{}
}

// try writes an object, unless its last try failed and the next one is not due.
func (a *attempts) try(kind, name, module string, write func() error) {
	object := kind + "/" + name
	a.seen[object] = true
	last := a.failed[object]
	if last != nil && last.bundle == a.bundle && a.now.Before(last.next) {
		return
	}
	err := write()
	if err == nil {
		delete(a.failed, object)
		return
	}
	if last == nil || last.bundle != a.bundle {
		last = &attempt{bundle: a.bundle, backoff: wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.1, Steps: 10, Cap: slowestRetry}}
		a.failed[object] = last
	}
	last.Failure = Failure{kind, name, module, err}
	last.next = a.now.Add(last.backoff.Step())
}

// failing reports whether something could not be written so far.
func (a *attempts) failing() bool {
	for object := range a.failed {
		if a.seen[object] {
			return true
		}
	}
	return false
}

// end returns what is not as the bundle says, and forgets objects that it is not about.
func (a *attempts) end() Outcome {
	var out Outcome
	for object, failed := range a.failed {
		if !a.seen[object] {
			delete(a.failed, object)
			continue
		}
		out.Failures = append(out.Failures, failed.Failure)
		if until := max(failed.next.Sub(a.now), time.Millisecond); out.Retry == 0 || until < out.Retry {
			out.Retry = until
		}
	}
	slices.SortFunc(out.Failures, func(a, b Failure) int { return cmp.Compare(a.Err.Error(), b.Err.Error()) })
	return out
}
