// Package reconcile decides the next action of a reconcile of one Kyma, and the state at its end. It is pure: the
// controller calls Decide, takes the action, adds its result to the facts, and calls Decide again until the action is
// End.
//
// No bundle is published while the control plane is incomplete, to a refused Kyma, or during a registry backoff. Every
// sequence of results reaches End.
package reconcile

import "time"

// State is the state of a Kyma at the end of a reconcile.
type State string

// States of a reconcile.
const (
	// Unknown means that the publisher has not read the state of the control plane yet.
	Unknown State = "Unknown"
	// Held means that the control plane has been changing for longer than HoldSettles. Only renewals are published.
	Held State = "Held"
	// Gone means that the Kyma is deleted, and the publisher's finalizer is removed.
	Gone State = "Gone"
	// Refused means that no bundle can be published until the Kyma is changed.
	Refused State = "Refused"
	// Unreachable means that the registry does not respond.
	Unreachable State = "Unreachable"
	// Settled means that nothing changed since a reconcile without pending work.
	Settled State = "Settled"
	// Due means that the report was read and a bundle was published if necessary.
	Due State = "Due"
)

// Action is the next step of a reconcile.
type Action string

// Actions of a reconcile.
const (
	// AskNewest reads the digest of the newest report.
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
	// End ends the reconcile and writes the status if necessary.
	End Action = "End"
)

// Result is the result of an action, or empty if the action was not taken.
type Result string

// Results of actions.
const (
	// Yes means that the action or check succeeded. FetchReport and Publish also return Yes after a failure of only
	// this runtime.
	Yes Result = "Yes"
	// No means that the check failed, for example because a newer report exists.
	No Result = "No"
	// Down means that the registry does not respond.
	Down Result = "Down"
)

// HoldSettles is the maximum duration of a partial change of the control plane. After it, reconciles end in state Held.
const HoldSettles = 5 * time.Second

// Facts are the input of a decision.
type Facts struct {
	// View is true if the catalog, the rollout gates and the Watchers are known and consistent.
	View bool
	// Changing is how long the control plane has been partially changed.
	Changing time.Duration
	// Deleted is true if the Kyma is being deleted. Finalizer is true if it has the publisher's finalizer.
	Deleted, Finalizer bool
	// Requested is true if an operator requested the reconcile. Pending is true if a new bundle is required.
	Requested, Pending bool
	// Backoff is true during a registry backoff.
	Backoff bool
	// Settled is true if an earlier reconcile with the same inputs and the known report found no pending work.
	Settled bool
	// Postponed is true if this process does not have to fetch the report yet.
	Postponed bool
	// Unchanged is true if an earlier reconcile with the same inputs and the fetched report found no pending work.
	Unchanged bool

	// Results of the actions.
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

// mayPoll reports whether only a new report could require an action.
func (f Facts) mayPoll() bool {
	return f.View && f.Settled && !f.Requested && !f.Pending && !f.Backoff
}

// hold returns the next action while the catalog is unknown or inconsistent. Only changes of bundles must wait.
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
