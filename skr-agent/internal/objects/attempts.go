package objects

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Failure describes an object that could not be written.
type Failure struct {
	// Module is the name of the module if the object is a Manifest. It is empty for other kinds.
	Kind, Name, Module string
	// Err is the write error. It contains the object's name.
	Err error
}

// Outcome is the result of writing a bundle. Retry is the delay until the next attempt, or 0 if no write failed.
type Outcome struct {
	Failures []Failure
	Retry    time.Duration
	// PhaseDone is the digest of the bundle whose takeover phase is complete. Removed contains the lifecycle-manager
	// objects that were removed.
	PhaseDone string
	Removed   []bundle.ObjectRef
}

// Err joins all failures. It returns nil if no write failed.
func (o Outcome) Err() error {
	all := make([]error, len(o.Failures))
	for i, f := range o.Failures {
		all[i] = f.Err
	}
	return errors.Join(all...)
}

// attempts records the objects that could not be written. Each object has its own backoff, so that an object that the
// API server rejects does not block the others. The agent writes a new bundle's objects without a delay.
type attempts struct {
	failed map[string]*attempt
	// bundle is the current bundle's digest. seen contains the bundle's objects.
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

// Minimum and maximum delays before a retry.
const (
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
)

func (a *attempts) startBundle(bundle string, now time.Time) {
	if a.failed == nil {
		a.failed = map[string]*attempt{}
	}
	a.bundle, a.now, a.seen = bundle, now, map[string]bool{}
}

// try calls the function write for an object. It does nothing while the object is in backoff after a failed write.
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
		last = &attempt{
			bundle: a.bundle, backoff: wait.Backoff{
				Duration: minRetryDelay, Factor: 2, Jitter: 0.1, Steps: 10, Cap: maxRetryDelay,
			},
		}
		a.failed[object] = last
	}
	last.Failure = Failure{kind, name, module, err}
	last.next = a.now.Add(last.backoff.Step())
}

// hasFailures reports whether an object in the current bundle could not be written.
func (a *attempts) hasFailures() bool {
	for object := range a.failed {
		if a.seen[object] {
			return true
		}
	}
	return false
}

// collectOutcome returns the outcome and drops the records for objects that are not in the bundle anymore.
func (a *attempts) collectOutcome() Outcome {
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
