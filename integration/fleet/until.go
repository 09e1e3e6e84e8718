package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// LongTimeout is the time limit for operations that take seconds on an idle machine and minutes on a busy machine.
const LongTimeout = 3 * time.Minute

// Until calls condition repeatedly until it returns true. If the time limit passes first, Until returns an error with
// goal, which describes the condition, and with the last state that condition returned. Until cannot interrupt
// condition, so condition must not block forever.
func Until(ctx context.Context, limit time.Duration, goal string, condition func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := shortestPause; ; pause = min(pause*5/4, longestPause) {
		ok, state := condition()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out after %s waiting until %s; last state: %s", limit, goal, state)
		case <-time.After(pause):
		}
	}
}

// Limits of the pause between two calls of the condition in Until. The pause increases with each call, because
// frequent checks slow down the programs.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 300 * time.Millisecond
)

// describe returns an object's status as text.
func describe(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
