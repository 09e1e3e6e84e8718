package enrollment

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestInterruptedMoveReportsNoTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := moveFlags{patience: time.Minute}
	err := f.waitUntil(ctx, "the publisher to take over runtime berlin", func() (bool, error) { return false, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want the interruption", err)
	}
}
