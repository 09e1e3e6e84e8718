// Package silence decides whether a runtime is silent. Conditions, rollouts and shards use the same decision.
//
// An unchanged report is not written to the Kyma's status. After a restart, the previous publisher may have received
// unrecorded reports, so the runtime is Uncertain until this publisher has read its report.
package silence

import "time"

// LastReport is the known time of a runtime's last report.
type LastReport struct {
	// At is the time of the last report with known content, or zero.
	At time.Time
	// Possible is the latest time at which another publisher may have received an unrecorded report, or zero.
	Possible time.Time
}

// State describes whether a runtime reports.
type State int

// States of a runtime.
const (
	// Never means that the runtime has not reported yet.
	Never State = iota
	// Reporting means that the last report is not older than the allowed silence.
	Reporting
	// Uncertain means that the last known report is too old, but another publisher may have received a newer one.
	Uncertain
	// Silent means that the last report is older than the allowed silence.
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
