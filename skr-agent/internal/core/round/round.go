// Package round decides the next action in a round, the state at the end of the round, and the time of the next round.
// A round is one reconciliation by the agent. The package does not perform I/O or read a clock. The agent calls Decide,
// executes the action, adds the result to Facts, and calls Decide again until the action is End. Then it calls Finish.
//
// A round has four parts. First, a new process reads the state of the previous process. Second, the agent polls the
// registry if a poll is due. Third, it restores its own objects. Last, it applies the last accepted bundle and sends a
// report. After a failed part, the round continues with the next part. It ends only if the agent could otherwise accept
// a bundle older than the last accepted one, or apply a bundle without its content.
package round

import "time"

// State is the runtime's state at the end of a round.
type State string

// These are the states at the end of a round.
const (
	// Restarting means that the process restarts with another bootstrap Secret.
	Restarting State = "Restarting"
	// Starting means that the agent cannot read the state of the previous process yet. It accepts no bundle, because
	// the bundle could be older than the last accepted one.
	Starting State = "Starting"
	// Failed means that the API server did not return the Kyma, the Manifests or the catalog.
	Failed State = "Failed"
	// Blocked means that the content store returned an error. The agent applies nothing and sends no report.
	Blocked State = "Blocked"
	// Fetching means that the agent fetches module content. It has applied the modules whose content is present.
	Fetching State = "Fetching"
	// Unassigned means that the agent has not accepted a bundle yet. It only sends reports.
	Unassigned State = "Unassigned"
	// Released means that the bundle returns the runtime to lifecycle-manager. The agent neither writes the Kyma's
	// status nor restores the Kyma, the Manifests and the CRDs.
	Released State = "Released"
	// Applied means that the agent applied the last accepted bundle and sent a report if necessary.
	Applied State = "Applied"
)

// Action is the next step in a round.
type Action string

// These are the actions in a round, in their order.
const (
	// CheckBootstrap compares the bootstrap Secret with the Secret that the process started with. Yes means that the
	// Secret is different and the process restarts.
	CheckBootstrap Action = "CheckBootstrap"
	// LoadState reads the bundle that the previous process accepted. No means that the agent must try again.
	LoadState Action = "LoadState"
	// FindTwin looks for another agent with the same key. Yes means that newer bundles can be for another cluster.
	FindTwin Action = "FindTwin"
	// ImportFiles imports files from the import folder.
	ImportFiles Action = "ImportFiles"
	// Pull reads a newer bundle from the registry.
	Pull Action = "Pull"
	// ReadChanges reads the changes to the agent's own objects since the last round.
	ReadChanges Action = "ReadChanges"
	// RestoreDefinitions restores the CRDs for the agent's kinds. No means that the API server does not serve a kind.
	RestoreDefinitions Action = "RestoreDefinitions"
	// RestoreObjects restores the agent's other objects. No means that an object is not restored yet.
	RestoreObjects Action = "RestoreObjects"
	// ReadRuntime reads the Kyma and the Manifests, and selects the modules to apply.
	ReadRuntime Action = "ReadRuntime"
	// FetchContent fetches module content. More means that the fetch continues in the next round.
	FetchContent Action = "FetchContent"
	// WriteSecrets writes the bundle's sealed Secrets.
	WriteSecrets Action = "WriteSecrets"
	// ApplyFetched applies the modules whose content is present. ApplyAll applies the bundle.
	ApplyFetched Action = "ApplyFetched"
	ApplyAll     Action = "ApplyAll"
	// Observe reads the state of the runtime for the report.
	Observe Action = "Observe"
	// Prune deletes content that no module needs.
	Prune Action = "Prune"
	// UpdateStatus writes the Kyma's status.
	UpdateStatus Action = "UpdateStatus"
	// SendReport sends a report if it is different or due.
	SendReport Action = "SendReport"
	// UpgradeImage updates the image in the agent's Deployment. No means that the running image is not proven yet.
	UpgradeImage Action = "UpgradeImage"
	// End ends the round.
	End Action = "End"
)

// Result is an action's result, or empty if the action was not taken.
type Result string

// These are the results of an action. Unless an action's comment describes its results, it returns Yes, or No after an
// error from the API server.
const (
	Yes  Result = "Yes"
	No   Result = "No"
	More Result = "More"
)

// Memory contains the facts that one round passes to the next.
type Memory struct {
	// NextPoll is the time of the next poll. NextDefinitions is the time of the next check of the agent's CRDs.
	NextPoll, NextDefinitions time.Time
	// IsPostponed is true if a round polled the registry but could not apply the bundle completely.
	IsPostponed bool
	// IsProven is true after the agent's image has run for one minute without a failure.
	IsProven bool
	// IsKindMissing is true if the API server does not serve one of the agent's kinds.
	IsKindMissing bool
	// RestoreFailures and Failures count the consecutive rounds in which a restoration or another action failed.
	RestoreFailures, Failures int
}

// Facts contains the input for Decide.
type Facts struct {
	Memory
	// Now is the time at the start of the round.
	Now time.Time
	// IsFirst is true until the process has read the state of the previous process.
	IsFirst bool
	// IsBootstrapChanged is true if the bootstrap Secret was written since the last round.
	IsBootstrapChanged bool
	// IsNotified is true if the publisher notified the agent about a new bundle.
	IsNotified bool
	// HasFolder is true if the agent imports files from a folder. ManagesImage is true if bundles can change the
	// agent's image.
	HasFolder, ManagesImage bool
	// AreDefinitionsChanged is true if one of the agent's CRDs was changed or deleted since the last round.
	AreDefinitionsChanged bool
	// IsReleased is true if the last accepted bundle returns the runtime to lifecycle-manager.
	IsReleased bool
	// HasBundle is true if the agent has accepted a bundle. IsDeleting is true if the bundle removes all modules.
	HasBundle, IsDeleting bool

	// These are the results of the actions so far. They are empty for actions that were not executed.
	Bootstrap, Loaded, Twin, Imported, Pulled, Changes, Definitions, Restored   Result
	Runtime, Content, Secrets, Applied, Observed, Pruned, Status, Report, Image Result

	// WakeAfter is the shortest delay that an action requested. It is zero if no action requested a delay.
	WakeAfter time.Duration
}

// Wake requests the next round after the shortest delay. It ignores delays of zero.
func (f *Facts) Wake(delays ...time.Duration) { f.WakeAfter = shortest(append(delays, f.WakeAfter)...) }

// Decide returns the next action. If the action is End, it also returns the state.
func Decide(f Facts) (State, Action) {
	if state, action := f.decideStart(); action != "" {
		return state, action
	}
	if action := f.decidePoll(); action != "" {
		return "", action
	}
	switch {
	case f.Changes == "":
		return "", ReadChanges
	case f.Definitions == "" && f.mustRestoreDefinitions():
		return "", RestoreDefinitions
	case f.Restored == "":
		return "", RestoreObjects
	case f.Runtime == "":
		return "", ReadRuntime
	case f.Runtime == No:
		return Failed, End
	case f.HasBundle && f.Applied == "":
		return f.decideApply()
	case f.Content == More:
		return Fetching, End // report after the bundle is applied completely
	}
	return f.decideReport()
}

// decideStart returns the next action that prepares the process, or "" if the process is prepared. If the action is
// End, it also returns the state.
func (f Facts) decideStart() (State, Action) {
	switch {
	case f.Bootstrap == "" && (f.IsFirst || f.IsBootstrapChanged):
		return "", CheckBootstrap
	case f.Bootstrap == Yes:
		return Restarting, End
	case f.IsFirst && f.Loaded == "":
		return "", LoadState
	case f.Loaded == No:
		return Starting, End
	}
	return "", ""
}

// decidePoll returns the next action in a poll, or "" if no action is left.
func (f Facts) decidePoll() Action {
	switch {
	case !f.isPollDue():
		return ""
	case f.Twin == "":
		return FindTwin
	case f.HasFolder && f.Imported == "":
		return ImportFiles
	case f.Twin == No && f.Pulled == "": // otherwise, the bundle can be for the twin's cluster
		return Pull
	}
	return ""
}

// isPollDue reports whether the round polls the registry.
func (f Facts) isPollDue() bool { return f.IsNotified || !f.Now.Before(f.NextPoll) }

// mustRestoreDefinitions reports whether the round checks the agent's CRDs. Watches report changes to CRDs, but the
// agent may lack the permission to watch them.
func (f Facts) mustRestoreDefinitions() bool {
	return !f.IsReleased && (f.AreDefinitionsChanged || f.IsKindMissing || !f.Now.Before(f.NextDefinitions))
}

// decideApply returns the next action to apply the last accepted bundle.
func (f Facts) decideApply() (State, Action) {
	switch {
	case f.Content == "":
		return "", FetchContent
	case f.Content == No:
		return Blocked, End
	case f.Secrets == "" && !f.IsDeleting:
		return "", WriteSecrets
	case f.Content == More:
		return "", ApplyFetched
	}
	return "", ApplyAll
}

// decideReport returns the next action after the bundle is applied.
func (f Facts) decideReport() (State, Action) {
	switch {
	case f.Observed == "":
		return "", Observe
	case f.Observed == No:
		return Failed, End
	case f.Pruned == "":
		return "", Prune
	case f.Status == "" && !f.IsReleased:
		return "", UpdateStatus
	case f.Report == "":
		return "", SendReport
	case f.Image == "" && f.ManagesImage && (f.completesPoll() || !f.IsProven):
		return "", UpgradeImage
	case !f.HasBundle:
		return Unassigned, End
	case f.IsReleased:
		return Released, End
	}
	return Applied, End
}

// completesPoll reports whether the round polls the registry, or completes the work of an earlier poll.
func (f Facts) completesPoll() bool { return f.isPollDue() || f.IsPostponed }

const (
	// MinDelay is the minimum time between two rounds if a timer starts the second one.
	MinDelay = 10 * time.Millisecond
	// loadInterval is the delay until the agent tries again to read the state of the previous process.
	loadInterval = 5 * time.Second
	// definitionsInterval is the interval between checks of the agent's CRDs. trialInterval is the interval between
	// rounds until the agent's image is proven.
	definitionsInterval = 10 * time.Minute
	trialInterval       = time.Minute
	// The delay after a failure starts at minBackoff and doubles with each additional failure.
	minBackoff        = time.Second
	maxRestoreBackoff = 32 * time.Second
	maxBackoff        = time.Minute
)

// Finish returns the memory for the next round and the delay until that round. The delay is zero if the process
// restarts. pollInterval is the time between two polls. now is the time at the end of the round.
func Finish(f Facts, state State, pollInterval time.Duration, now time.Time) (Memory, time.Duration) {
	m := f.Memory
	switch state {
	case Restarting:
		return m, 0
	case Starting:
		return m, loadInterval
	}
	m.IsPostponed = f.completesPoll() && (state == Failed || state == Blocked || state == Fetching)
	if f.isPollDue() {
		m.NextPoll = f.Now.Add(pollInterval)
	}
	if f.Definitions != "" {
		m.IsKindMissing, m.NextDefinitions = f.Definitions == No, f.Now.Add(definitionsInterval)
	}
	m.RestoreFailures = count(f.RestoreFailures, f.Restored == No || m.IsKindMissing)
	m.Failures = count(f.Failures, f.hasFailed())
	if state == Fetching {
		f.Wake(MinDelay)
	}
	if f.Image == No {
		f.Wake(trialInterval)
	}
	delay := shortest(f.WakeAfter, backoff(m.RestoreFailures, maxRestoreBackoff), backoff(m.Failures, maxBackoff))
	if untilPoll := m.NextPoll.Sub(now); delay == 0 || untilPoll < delay {
		delay = untilPoll
	}
	return m, max(delay, MinDelay)
}

// hasFailed reports whether an action failed, apart from a poll and a restoration, which have their own delays.
func (f Facts) hasFailed() bool {
	return f.Runtime == No || f.Content == No || f.Applied == No || f.Observed == No || f.Pruned == No || f.Status == No
}

func count(failures int, failed bool) int {
	if failed {
		return failures + 1
	}
	return 0
}

// backoff returns the delay after a number of consecutive failures, or zero without a failure.
func backoff(failures int, limit time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(minBackoff<<min(failures-1, 10), limit)
}

// shortest returns the shortest positive duration. It returns zero if no duration is positive.
func shortest(durations ...time.Duration) time.Duration {
	var found time.Duration
	for _, d := range durations {
		if d > 0 && (found == 0 || d < found) {
			found = d
		}
	}
	return found
}
