package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongImportDoesNotDelayRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var imports background[string]
		starts, wakes := 0, 0
		next := func(takes time.Duration) (string, bool) {
			return imports.poll(importTimeSlice, func() { wakes++ }, func() string {
				starts++
				time.Sleep(takes)
				return "imported"
			})
		}
		result, ended := next(time.Second)
		require.True(t, ended)
		require.Equal(t, "imported", result)

		began := time.Now()
		for range 3 {
			_, ended = next(10 * time.Minute)
			require.False(t, ended)
		}
		require.Equal(t, 3*importTimeSlice, time.Since(began), "a round waits only for the time slice")
		require.Equal(t, 2, starts, "a running import is not started again")
		require.Zero(t, wakes)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, wakes, "the agent must poll after a long import")
		result, ended = next(0)
		require.True(t, ended)
		require.Equal(t, "imported", result)
		require.Equal(t, 2, starts)
	})
}
