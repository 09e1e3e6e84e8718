// Package reconcile decides the next action of a reconcile of one Kyma, and the state in which it ends. It is pure: the
// controller reads the facts, calls Decide, takes the action, adds its result to the facts, and calls Decide again
// until the action is End.
//
// A reconcile has one entry and one exit. Its guarantees are properties of Decide, which the tests check for every
// combination of facts: nothing is published while the control plane is incomplete, to a Kyma that is refused, or while
// the registry must not be asked; and every sequence of results ends.
package reconcile

import "time"

// State is the state of a Kyma at the end of a reconcile.
type State string

// The states of a reconcile.
const (
	// Unknown: the control plane has not been read yet. The Kyma is reconciled again soon.
	Unknown State = "Unknown"
	// Held: a change of the control plane has been under way for long. Reports are recorded, and bundles are only
	// renewed without a change.
	Held State = "Held"
	// Gone: the Kyma is deleted and has no finalizer of the publisher anymore.
	Gone State = "Gone"
	// Refused: nothing may be published to the Kyma until it is changed.
	Refused State = "Refused"
	// Unreachable: the registry does not answer. Only silence is recorded.
	Unreachable State = "Unreachable"
	// Settled: nothing changed since a reconcile that found nothing to do.
	Settled State = "Settled"
	// Due: the report and the bundle were looked at, and the status follows from them.
	Due State = "Due"
)

// Action is the next step of a reconcile.
type Action string

// The actions of a reconcile.
const (
	// AskNewest asks the registry for the digest of the newest report.
	AskNewest Action = "AskNewest"
	// AddFinalizer adds the publisher's finalizer to the Kyma.
	AddFinalizer Action = "AddFinalizer"
	// Admit checks whether anything may be published to the Kyma.
	Admit Action = "Admit"
	// CheckBundle compares the published bundle with the Kyma without its report.
	CheckBundle Action = "CheckBundle"
	// FetchReport fetches and verifies the newest report.
	FetchReport Action = "FetchReport"
	// Renew pushes the last bundle once more, with a later expiry, if it is due for renewal.
	Renew Action = "Renew"
	// Publish records the report and pushes a bundle if one is needed.
	Publish Action = "Publish"
	// End writes the status if the state has one, and ends the reconcile.
	End Action = "End"
)

// Result is the result of an action, empty if it was not taken.
type Result string

// The results of actions.
const (
	// Yes: the known report is the newest; the Kyma is admitted; the bundle is up to date; the report was fetched; the
	// bundle was published. A failure that concerns this runtime alone is part of the status, and Yes as well.
	Yes Result = "Yes"
	// No: the action did not have this result.
	No Result = "No"
	// Down: the registry does not answer.
	Down Result = "Down"
)

// HoldSettles is the maximum duration of a change of the control plane before Kymas are held.
const HoldSettles = 5 * time.Second

// Facts are the input of a decision.
type Facts struct {
	// View: the catalog, the gates and the Watchers are known and belong together.
	View bool
	// Changing is the time that the control plane has been changing, or has not been announced to a shard.
	Changing time.Duration
	// Deleted: the Kyma is being deleted. Finalizer: it has the publisher's finalizer.
	Deleted, Finalizer bool
	// Requested: an operator requested a reconcile. Pending: there is something to publish, as far as is known.
	Requested, Pending bool
	// Backoff: the registry must not be asked yet.
	Backoff bool
	// Settled: an equal reconcile with the known report found nothing to do, and the Kyma still owns its runtime.
	Settled bool
	// Postponed: this process has not asked for the report yet, and need not ask now.
	Postponed bool
	// Unchanged: an equal reconcile with the fetched report found nothing to do.
	Unchanged bool

	// The results of the actions.
	Newest, Admitted, Bundle, Report, Renewed, Published Result
}

// Decide returns the next action, and the state if it is End.
func Decide(f Facts) (State, Action) {
	if f.mayPoll() {
		switch f.Newest {
		case "":
			return "", AskNewest
		case Yes:
			return Settled, End
		}
	}
	switch {
	case !f.View:
		return f.hold()
	case !f.Finalizer && f.Deleted:
		return Gone, End
	case !f.Finalizer:
		return "", AddFinalizer
	case f.Backoff && !f.Requested:
		return Unreachable, End
	case f.Admitted == "":
		return "", Admit
	case f.Admitted == No:
		return Refused, End
	}
	return f.publish()
}

// mayPoll reports whether a report that is new is all that could give this reconcile anything to do. Nearly all
// reconciles of a fleet at rest end with that answer.
func (f Facts) mayPoll() bool {
	return f.View && f.Settled && !f.Requested && !f.Pending && !f.Backoff
}

// hold decides while the Kyma cannot be resolved. If that lasts, reports are recorded, silence is noticed, and bundles
// are renewed before they expire: only changes wait.
func (f Facts) hold() (State, Action) {
	switch {
	case f.Changing < HoldSettles:
		return Unknown, End
	case f.Backoff, f.Report == Down, f.Renewed == Down:
		return Unreachable, End
	case f.Admitted == "":
		return "", Admit
	case f.Admitted == Yes && f.Report == "":
		return "", FetchReport
	case f.Admitted == Yes && f.Renewed == "":
		return "", Renew
	}
	return Held, End
}

// publish decides for a Kyma that is admitted.
func (f Facts) publish() (State, Action) {
	switch {
	case f.Postponed && f.Bundle == "":
		return "", CheckBundle
	case f.Postponed && f.Bundle == Yes:
		return Settled, End
	case f.Report == "":
		return "", FetchReport
	case f.Report == Down:
		return Unreachable, End
	case f.Unchanged && !f.Requested:
		return Settled, End
	case f.Published == "":
		return "", Publish
	case f.Published == Down:
		return Unreachable, End
	}
	return Due, End
}
