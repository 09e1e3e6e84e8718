package agent

import (
	"errors"
	"testing"
	"time"
)

func TestOutageEmitsOneEventAtItsStartAndOneAtItsEnd(t *testing.T) {
	down, start := errors.New("connection refused"), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var o outage
	for i, step := range []struct {
		after  time.Duration
		err    error
		report bool
	}{
		{0, nil, false},
		{time.Minute, down, true},
		{2 * time.Minute, errors.New("timeout"), false},
		{3 * time.Minute, nil, true},
		{4 * time.Minute, down, false}, // the last outage Event is three minutes old
		{5 * time.Minute, nil, false},
		{6 * time.Minute, down, true},
		{7 * time.Minute, nil, true},
	} {
		var report bool
		if o, report = o.update(step.err, start.Add(step.after)); report != step.report ||
			(o.reason != "") != (step.err != nil) {
			t.Errorf("step %d: got Event %t and outage %+v, want Event %t", i, report, o, step.report)
		}
		if i == 2 && o.reason != "connection refused" {
			t.Errorf("got reason %q, want the first error of the outage", o.reason)
		}
	}
}
