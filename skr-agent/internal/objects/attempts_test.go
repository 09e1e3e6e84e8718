package objects

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusedObjectHasItsOwnBackoff(t *testing.T) {
	var a attempts
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tries := map[string]int{}
	refused := map[string]bool{"a": true}
	round := func(bundle string, after time.Duration, objects ...string) Outcome {
		a.begin(bundle, start.Add(after))
		for _, object := range objects {
			a.try("ModuleTemplate", object, "", func() error {
				tries[object]++
				if refused[object] {
					return errors.New(object + " is refused")
				}
				return nil
			})
		}
		return a.end()
	}
	out := round("one", 0, "a", "b")
	require.ErrorContains(t, out.Err(), "a is refused")
	require.Len(t, out.Failures, 1)
	require.InDelta(t, time.Second, out.Retry, float64(150*time.Millisecond))

	// Rounds come every 100 ms for 10 minutes, as they do where much happens.
	for after := 100 * time.Millisecond; after < 10*time.Minute; after += 100 * time.Millisecond {
		out = round("one", after, "a", "b")
		require.Len(t, out.Failures, 1, "it is reported all the time")
		require.LessOrEqual(t, out.Retry, slowestRetry+slowestRetry/10)
		require.Positive(t, out.Retry)
	}
	require.Equal(t, 6000, tries["b"], "the others are looked at in every round")
	require.Greater(t, tries["a"], 10)
	require.Less(t, tries["a"], 20)

	before := tries["a"]
	round("two", 10*time.Minute, "a")
	require.Equal(t, before+1, tries["a"], "another bundle is tried at once")
	require.Empty(t, round("two", 10*time.Minute, "b"), "what the bundle is not about is forgotten")

	refused["a"] = true
	round("two", 11*time.Minute, "a")
	refused["a"] = false
	require.Empty(t, round("two", 13*time.Minute, "a"))
	require.NoError(t, round("two", 13*time.Minute, "a").Err())
}
