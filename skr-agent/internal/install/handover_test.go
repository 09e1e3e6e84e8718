package install

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

func TestStatusShowsThatModuleWaitsForAnotherModule(t *testing.T) {
	const text = "waiting for the takeover of Secret a/b by module other"
	installing := handover{waitReason: text, recheckAfter: handOverInterval}
	missing := handover{waitReason: text, recheckAfter: unwrittenInterval}
	settled := handover{recheckAfter: unwrittenInterval}
	scheduled := handover{waitReason: text, recheckAfter: unwrittenInterval, isScheduled: true}
	for name, c := range map[string]struct {
		found   handover
		elapsed time.Duration
		state   v1beta2.State
		message string
		again   time.Duration
	}{
		"other module is being installed": {installing, time.Second, v1beta2.StateReady, "ok", time.Second},
		"other module takes long":         {installing, time.Minute, v1beta2.StateReady, "ok, " + text, 15 * time.Second},
		"other module takes too long":     {installing, time.Hour, v1beta2.StateWarning, text, time.Minute},
		"content is missing":              {missing, time.Second, v1beta2.StateReady, "ok, " + text, time.Minute},
		"content is missing for an hour":  {missing, time.Hour, v1beta2.StateWarning, text, time.Minute},
		"other module waits for a window": {scheduled, 24 * time.Hour, v1beta2.StateReady, "ok, " + text, time.Minute},
		"no object moves anymore":         {settled, time.Hour, v1beta2.StateReady, "ok", 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1_000_000, 0)
			now := start.Add(c.elapsed)
			up := &upgrader{now: func() time.Time { return now }, pacer: &pacer{readyTimeout: 10 * time.Minute}}
			known := &memo{}
			known.recordHandover(installing, start)
			known.recordHandover(c.found, now)
			out := outcome.Outcome{State: v1beta2.StateReady, Ready: outcome.Finding{OK: true, Message: "ok"}}
			if known.handingOver != "" {
				out = up.addHandover(known, out)
			}
			require.Equal(t, c.state, out.State)
			require.Equal(t, c.message, out.Ready.Message)
			require.Equal(t, c.again, out.Again)
			require.Equal(t, c.state == v1beta2.StateReady, out.Ready.OK)
		})
	}
}
