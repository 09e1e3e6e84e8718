// Package pause waits for a duration unless a context ends first.
package pause

import (
	"context"
	"time"
)

// Sleep waits. It returns false if the context ends first.
func Sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}
