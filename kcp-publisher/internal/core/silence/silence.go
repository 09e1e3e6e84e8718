// Package silence decides whether a runtime is silent. Conditions, rollouts and shards use the same decision.
//
// An unchanged report is not written to the Kyma's status, so the status alone does not prove silence. After a restart
// or a change of leader, the previous publisher may have received reports that it did not record. Such a runtime is
// Uncertain: its conditions do not change, and a rollout does not treat it as offline or give it a version. The state
// ends when this publisher has polled for the report, or when even an unrecorded report would be too old.
package silence

import "time"

// LastReport is the known time of a runtime's last report.
type LastReport struct {
	// At is the time of the last report whose content is known, or zero if no such report was received.
	At time.Time
	// Possible is the latest time at which another publisher may have received a report that it did not record. It is
	// zero if all reports are recorded.
	Possible time.Time
}

// State describes whether a runtime reports.
type State int

// The states of a runtime.
const (
	// Never: the runtime has not reported yet.
	Never State = iota
	// Reporting: the last report is not older than the allowed silence.
	Reporting
	// Uncertain: the last known report is older than the allowed silence, but another publisher may have received a
	// newer report.
	Uncertain
	// Silent: the last report is older than the allowed silence.
	Silent
)

// State returns the state of a runtime at the given time.
func (l LastReport) State(allowed time.Duration, now time.Time) State {
	switch {
	case l.At.IsZero():
		return Never
	case now.Sub(l.At) <= allowed:
		return Reporting
	case l.MayArrive(allowed, now):
		return Uncertain
	}
	return Silent
}

// MayArrive reports whether an unrecorded report can be recent enough for the allowed silence.
func (l LastReport) MayArrive(allowed time.Duration, now time.Time) bool {
	return !l.Possible.IsZero() && now.Sub(l.Possible) <= allowed
}
