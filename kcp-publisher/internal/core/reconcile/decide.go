// Package reconcile decides the next action in the reconcile of one Kyma, and the state at the end. It does not perform
// I/O: the controller calls Decide, executes the action, adds the result to Facts, and calls Decide again until the
// action is End.
//
// Decide never returns Publish while the catalog is incomplete, if the Kyma is refused, or during a backoff after a
// failed registry request. It returns Persist before Publish if the report contains data that must survive a crash.
// Every sequence of results leads to the action End.
package reconcile

import "time"

// State is the state of a Kyma at the end of a reconcile.
type State string

// These are the states at the end of a reconcile.
const (
	// Unknown means that the publisher has not read all control plane objects yet.
	Unknown State = "Unknown"
	// Held means that the control plane's objects have been changing for longer than HoldTimeout. The publisher only
	// renews bundles.
	Held State = "Held"
	// Gone means that the Kyma is deleted and no longer has the publisher's finalizer.
	Gone State = "Gone"
	// Refused means that the publisher cannot publish a bundle until a user changes the Kyma.
	Refused State = "Refused"
	// Unreachable means that the registry does not respond.
	Unreachable State = "Unreachable"
	// Settled means that no work is pending: an earlier reconcile finished all work, and no input has changed since
	// then.
	Settled State = "Settled"
	// Due means that the publisher read the report and published a bundle if necessary.
	Due State = "Due"
)

// Action is the next step of a reconcile.
type Action string

// These are the actions in a reconcile.
const (
	// ReadNewestDigest reads the digest of the runtime's newest report.
	ReadNewestDigest Action = "AskNewest"
	// AddFinalizer adds the publisher's finalizer to the Kyma.
	AddFinalizer Action = "AddFinalizer"
	// Admit checks whether the publisher can publish bundles for the Kyma.
	Admit Action = "Admit"
	// CheckBundle checks whether the published bundle is up to date, without reading the report.
	CheckBundle Action = "CheckBundle"
	// FetchReport fetches and verifies the runtime's newest report.
	FetchReport Action = "FetchReport"
	// Renew pushes the last bundle again with a later expiry if a renewal is due.
	Renew Action = "Renew"
	// RecordReport copies the report's data to the Kyma's status in memory.
	RecordReport Action = "RecordReport"
	// Persist writes the status, because it contains new data that must survive a crash, such as the agent's new key.
	Persist Action = "Persist"
	// Publish pushes a new bundle if necessary.
	Publish Action = "Publish"
	// End ends the reconcile and writes the status if necessary.
	End Action = "End"
)

// Result is the result of an action, or empty if the action was not taken.
type Result string

// These are the results of an action.
const (
	// Yes means that the action or check succeeded. It is also the result of FetchReport and Publish if they failed
	// only for this runtime, while the registry still works.
	Yes Result = "Yes"
	// No means that the check failed. For ReadNewestDigest, it means that the runtime has a newer report.
	No Result = "No"
	// Down means that the registry does not respond.
	Down Result = "Down"
)

// HoldTimeout is the maximum duration of a change to the control plane's objects. If a change takes longer, reconciles
// end in the state Held.
const HoldTimeout = 5 * time.Second

// Facts contains the input of Decide.
type Facts struct {
	// HasView is true if the publisher has read a consistent catalog, the rollouts and the Watchers.
	HasView bool
	// ChangingFor is the time since the start of a change to the control plane's objects, or zero if no change is in
	// progress.
	ChangingFor time.Duration
	// IsDeleted is true if the Kyma is being deleted. HasFinalizer is true if the Kyma has the publisher's finalizer.
	IsDeleted, HasFinalizer bool
	// Requested is true if an operator requested this reconcile. Pending is true if the publisher must publish a new
	// bundle.
	Requested, Pending bool
	// InBackoff is true during a backoff after a failed registry request.
	InBackoff bool
	// IsSettled is true if an earlier reconcile with the same inputs and the last known report finished all work. The
	// runtime may have sent a newer report since then.
	IsSettled bool
	// CanPostpone is true if this process can fetch the report in a later reconcile.
	CanPostpone bool
	// IsUnchanged is known only after FetchReport. It is true if an earlier reconcile with the same inputs and the
	// fetched report finished all work.
	IsUnchanged bool
	// MustPersist is true if the recorded report contains data that the publisher cannot get a second time. The
	// publisher must store the data before it publishes a bundle.
	MustPersist bool

	// These are the results of the actions so far. They are empty for actions that were not executed.
	Newest, Admitted, Bundle, Report, Recorded, Persisted, Renewed, Published Result
}

// Decide returns the next action. If the action is End, it also returns the state.
func Decide(f Facts) (State, Action) {
	if f.mayPoll() {
		switch f.Newest {
		case "":
			return "", ReadNewestDigest
		case Yes:
			return Settled, End
		}
	}
	switch {
	case !f.HasView:
		return f.decideOnHold()
	case !f.HasFinalizer:
		return f.decideWithoutFinalizer()
	case f.InBackoff && !f.Requested:
		return Unreachable, End
	case f.Admitted == "":
		return "", Admit
	case f.Admitted == No:
		return Refused, End
	}
	return f.decidePublish()
}

func (f Facts) decideWithoutFinalizer() (State, Action) {
	if f.IsDeleted {
		return Gone, End
	}
	return "", AddFinalizer
}

// mayPoll reports whether a newer report from the runtime is the only possible reason for this reconcile. For example,
// it returns false after a change to the Kyma.
func (f Facts) mayPoll() bool {
	return f.HasView && f.IsSettled && !f.Requested && !f.Pending && !f.InBackoff
}

// decideOnHold returns the next action while the control plane's objects are unknown or a change is in progress.
// During this time, the publisher can renew bundles but must not change their content. decideOnHold adds the
// finalizer before it reads a report, because the runtime of a new Kyma can have modules, for example after a restore
// of the control plane.
func (f Facts) decideOnHold() (State, Action) {
	switch {
	case f.ChangingFor < HoldTimeout:
		return Unknown, End
	case !f.HasFinalizer:
		return f.decideWithoutFinalizer()
	case f.InBackoff, f.Report == Down, f.Renewed == Down:
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

func (f Facts) decidePublish() (State, Action) {
	switch {
	case f.CanPostpone && f.Bundle == "":
		return "", CheckBundle
	case f.CanPostpone && f.Bundle == Yes:
		return Settled, End
	case f.Report == "":
		return "", FetchReport
	case f.Report == Down:
		return Unreachable, End
	case f.IsUnchanged && !f.Requested:
		return Settled, End
	case f.Recorded == "":
		return "", RecordReport
	case f.MustPersist && f.Persisted == "":
		return "", Persist
	case f.Published == "":
		return "", Publish
	case f.Published == Down:
		return Unreachable, End
	}
	return Due, End
}
