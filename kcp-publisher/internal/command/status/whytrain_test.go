package status

import (
	"bytes"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

func TestWhyCommandShowsTheNextVersionOfATrain(t *testing.T) {
	arrival := time.Date(2026, 11, 25, 13, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	drawComing(&out, []comingVersion{{"train", train.Position{
		Version: "1.8.0", Channel: "fast", To: "regular", Arrival: &arrival, Reason: v1alpha1.WaitTimeNotReached,
		Message: "waiting for the minimum time",
	}}})
	want := "\ntrain train: version 1.8.0 is in channel fast, expected in channel regular at 2026-11-25T13:00:00Z; " +
		"TimeNotReached: waiting for the minimum time\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
