// Package silence decides whether a runtime is silent. Conditions, rollouts and shards all use this decision.
//
// If a report has not changed, the publisher does not write its time to the Kyma's status. After a restart, the
// publisher therefore does not know whether the previous publisher received a newer report. The runtime is Uncertain
// until this publisher has read the runtime's report.
package silence

import "time"

// LastReport contains the known and the possible time of a runtime's last report.
type LastReport struct {
	// At is the time of the last report that is known, or zero.
	At time.Time
	// Possible is the latest time at which another publisher may have received a report that is not in the Kyma's
	// status. It is zero if this is impossible.
	Possible time.Time
}

// State describes whether a runtime still sends reports.
type State int

// These are the possible states of a runtime.
const (
	// Never means that the runtime has not reported yet.
	Never State = iota
	// Reporting means that the last report is recent enough.
	Reporting
	// Uncertain means that the last known report is too old, but another publisher may have received a newer one.
	Uncertain
	// Silent means that the last report is older than allowed.
	Silent
)

// State returns the state of a runtime at the time now. A runtime may be without a report for the time allowed.
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

// MayArrive reports whether another publisher may have received a report that is recent enough but not in the Kyma's
// status.
func (l LastReport) MayArrive(allowed time.Duration, now time.Time) bool {
	return !l.Possible.IsZero() && now.Sub(l.Possible) <= allowed
}
