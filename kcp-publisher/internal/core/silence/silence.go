// Package silence decides whether a runtime is silent. Conditions, rollouts and shards all use this decision.
//
// The publisher does not update the Kyma's status for a report that differs from the last one only in its time. After a
// restart, the publisher therefore does not know whether the previous publisher process received a newer report. If the
// last known report is too old, the runtime is Uncertain until this process has read the runtime's report.
package silence

import "time"

// LastReport contains the known and the possible time of a runtime's last report.
type LastReport struct {
	// KnownAt is the time of the last known report, or zero.
	KnownAt time.Time
	// PossibleAt is the time until which another publisher process may have received reports that the Kyma's status
	// does not show. It is zero if no other process could have received one.
	PossibleAt time.Time
}

// State describes whether a runtime still sends reports.
type State int

// These are the possible states of a runtime.
const (
	// NeverReported means that the runtime has not reported yet.
	NeverReported State = iota
	// Reporting means that the last report is recent enough.
	Reporting
	// Uncertain means that the last known report is too old, but another publisher may have received a newer one.
	Uncertain
	// Silent means that the last report is older than allowed.
	Silent
)

// State returns the state of a runtime at the time now. timeout is the allowed time without a report.
func (l LastReport) State(timeout time.Duration, now time.Time) State {
	switch {
	case l.KnownAt.IsZero():
		return NeverReported
	case now.Sub(l.KnownAt) <= timeout:
		return Reporting
	case l.MayArrive(timeout, now):
		return Uncertain
	}
	return Silent
}

// SilentAfter returns the time after which the state is Silent if no other report arrives.
func (l LastReport) SilentAfter(timeout time.Duration) time.Time {
	if l.PossibleAt.After(l.KnownAt) {
		return l.PossibleAt.Add(timeout)
	}
	return l.KnownAt.Add(timeout)
}

// MayArrive reports whether another publisher process may have received a report within timeout that the Kyma's status
// does not show.
func (l LastReport) MayArrive(timeout time.Duration, now time.Time) bool {
	return !l.PossibleAt.IsZero() && now.Sub(l.PossibleAt) <= timeout
}
