package status

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestStatusWatchPrintsAllWarningsWithTheSameCause(t *testing.T) {
	blocked := func(subject, message string) fleet.Cause {
		return fleet.Cause{Situation: fleet.TrainBlocked, Subject: subject, Message: message}
	}
	before := fleet.Fleet{Time: noon, Warnings: []fleet.Cause{blocked("keda", "keda: 1 of 9 failed")}}
	now := fleet.Fleet{
		Time:     noon,
		Warnings: []fleet.Cause{blocked("keda", "keda: 2 of 9 failed"), blocked("nats", "nats: 1 of 3 failed")},
	}
	f := &statusFlags{format: "table"}
	var out bytes.Buffer
	if err := f.printNews(&out, before, now); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "warning  nats: 1 of 3 failed") || strings.Contains(got, "keda") {
		t.Errorf("after a second warning: got output %q", got)
	}
	out.Reset()
	if err := f.printNews(&out, now, before); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "warning resolved  nats: 1 of 3 failed") ||
		strings.Contains(got, "keda") {
		t.Errorf("after the second warning ended: got output %q", got)
	}
}
