// Package silence decides when a runtime counts as silent. Conditions, rollouts and shards all call it.
//
// A report without news is not written to the Kyma's status, so the status alone does not prove silence. After a
// restart or a change of leader, another publisher may have received reports that were not recorded. Such a runtime is
// Uncertain: it keeps its conditions, and a rollout neither waits for it as offline nor gives it a version, until this
// publisher has asked for its report or the allowed silence is over for the unrecorded report as well.
package silence

import "time"

// LastReport is the known time of a runtime's last report.
type LastReport struct {
	// At is the time of the last report whose content is known, zero for none.
	At time.Time
	// Possible is the end of the time when another publisher may have received a report without recording it, zero if that
	// is not possible.
	Possible time.Time
}

// State is the result of the decision whether a runtime reports.
type State int

// The states of a runtime.
const (
	// Never: the runtime has not reported yet.
	Never State = iota
	// Reporting: the last report is not older than the allowed silence.
	Reporting
	// Uncertain: the last known report is too old, and a newer one may have arrived.
	Uncertain
	// Silent: the last report is older than the allowed silence.
	Silent
)

// State returns whether a runtime reports at a time.
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

// MayArrive reports whether a report that was not recorded may be recent enough for the allowed silence.
func (l LastReport) MayArrive(allowed time.Duration, now time.Time) bool {
	return !l.Possible.IsZero() && now.Sub(l.Possible) <= allowed
}
