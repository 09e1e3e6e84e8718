// Package reconcile decides the next action of a reconcile of one Kyma, and the state in which it ends. It is pure: the
// controller reads the facts, calls Decide, takes the action, adds its result to the facts, and calls Decide again
// until the action is End.
//
// The guarantees of a reconcile are properties of Decide, which the tests check for every combination of facts. No
// bundle is published while the control plane is incomplete, to a refused Kyma, or during a registry backoff. Every
// sequence of results reaches End.
package reconcile

import "time"

// State is the state of a Kyma at the end of a reconcile.
type State string

// The states of a reconcile.
const (
	// Unknown: the publisher has not read the state of the control plane yet. It reconciles the Kyma again soon.
	Unknown State = "Unknown"
	// Held: the control plane has been changing for longer than HoldSettles. Reports are recorded, and bundles are
	// renewed with the same content.
	Held State = "Held"
	// Gone: the Kyma is deleted, and the publisher's finalizer is removed.
	Gone State = "Gone"
	// Refused: no bundle can be published for the Kyma until the Kyma is changed.
	Refused State = "Refused"
	// Unreachable: the registry does not respond. The status only changes if the runtime becomes silent.
	Unreachable State = "Unreachable"
	// Settled: the inputs are unchanged since a reconcile that found no pending work.
	Settled State = "Settled"
	// Due: the report was read and a bundle was published if one was needed. The result is written to the status.
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
	// Admit checks whether bundles can be published to the Kyma.
	Admit Action = "Admit"
	// CheckBundle checks whether the published bundle is up to date, without reading the report.
	CheckBundle Action = "CheckBundle"
	// FetchReport fetches and verifies the newest report.
	FetchReport Action = "FetchReport"
	// Renew pushes the last bundle again with a later expiry if the bundle is due for renewal.
	Renew Action = "Renew"
	// Publish records the report and pushes a bundle if one is needed.
	Publish Action = "Publish"
	// End ends the reconcile, and writes the status if the state requires that.
	End Action = "End"
)

// Result is the result of an action. It is empty if the action was not taken.
type Result string

// The results of actions.
const (
	// Yes: the action succeeded. For AskNewest, Admit and CheckBundle, this means that the known report is the newest,
	// that the Kyma is admitted, or that the bundle is up to date. FetchReport and Publish also return Yes after a
	// failure that concerns only this runtime, because the status reports such a failure.
	Yes Result = "Yes"
	// No: the check of the action failed, for example because a newer report exists.
	No Result = "No"
	// Down: the registry does not respond.
	Down Result = "Down"
)

// HoldSettles is how long the control plane can be partially changed before reconciles end in state Held.
const HoldSettles = 5 * time.Second

// Facts are the input of a decision.
type Facts struct {
	// View: the catalog, the rollout gates and the Watchers are known and consistent.
	View bool
	// Changing is how long the control plane has been partially changed, or how long a shard has waited for the
	// planner's announcement.
	Changing time.Duration
	// Deleted: the Kyma is being deleted. Finalizer: it has the publisher's finalizer.
	Deleted, Finalizer bool
	// Requested: an operator requested a reconcile. Pending: the known state requires a new bundle.
	Requested, Pending bool
	// Backoff: the registry failed recently and must not be called yet.
	Backoff bool
	// Settled: an earlier reconcile with the same inputs and the known report found no pending work, and the Kyma still
	// owns its runtime.
	Settled bool
	// Postponed: this process has not fetched the report since its start, and does not have to fetch it now.
	Postponed bool
	// Unchanged: an earlier reconcile with the same inputs and the fetched report found no pending work.
	Unchanged bool

	// The results of the actions.
	Newest, Admitted, Bundle, Report, Renewed, Published Result
}

// Decide returns the next action. If the action is End, it also returns the state.
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

// mayPoll reports whether only a new report could require an action. In that case, the reconcile first compares the
// digest of the newest report, and usually ends there.
func (f Facts) mayPoll() bool {
	return f.View && f.Settled && !f.Requested && !f.Pending && !f.Backoff
}

// hold returns the next action while the catalog is unknown or inconsistent. After HoldSettles, reports are recorded,
// silence is detected, and bundles are renewed before they expire. Only changes of bundles must wait.
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

// publish returns the next action for a Kyma to which bundles can be published.
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
