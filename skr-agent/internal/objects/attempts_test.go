package objects

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailedObjectHasOwnBackoff(t *testing.T) {
	var a attempts
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tries := map[string]int{}
	refused := map[string]bool{"a": true}
	round := func(bundle string, after time.Duration, objects ...string) Outcome {
		a.startBundle(bundle, start.Add(after))
		for _, object := range objects {
			a.try("ModuleTemplate", object, "", func() error {
				tries[object]++
				if refused[object] {
					return errors.New(object + " is refused")
				}
				return nil
			})
		}
		return a.collectOutcome()
	}
	out := round("one", 0, "a", "b")
	require.ErrorContains(t, out.Err(), "a is refused")
	require.Len(t, out.Failures, 1)
	require.InDelta(t, time.Second, out.Retry, float64(150*time.Millisecond))

	// A busy agent tries to write every 100 ms for 10 minutes.
	for after := 100 * time.Millisecond; after < 10*time.Minute; after += 100 * time.Millisecond {
		out = round("one", after, "a", "b")
		require.Len(t, out.Failures, 1, "every round must report the failure")
		require.LessOrEqual(t, out.Retry, maxRetryDelay+maxRetryDelay/10)
		require.Positive(t, out.Retry)
	}
	require.Equal(t, 6000, tries["b"], "other objects must be written in every round")
	require.Greater(t, tries["a"], 10)
	require.Less(t, tries["a"], 20)

	before := tries["a"]
	round("two", 10*time.Minute, "a")
	require.Equal(t, before+1, tries["a"], "a new bundle must be tried immediately")
	require.Empty(t, round("two", 10*time.Minute, "b"), "failures of objects outside the bundle must be dropped")

	refused["a"] = true
	round("two", 11*time.Minute, "a")
	refused["a"] = false
	require.Empty(t, round("two", 13*time.Minute, "a"))
	require.NoError(t, round("two", 13*time.Minute, "a").Err())
}
