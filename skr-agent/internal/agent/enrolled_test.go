package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

func TestAgentRestartsAfterChangeToBootstrapSecret(t *testing.T) {
	for name, c := range map[string]struct {
		isDifferent bool
		err         error
	}{
		"different Secret":              {isDifferent: true},
		"Secret applied without change": {},
		"invalid Secret":                {err: errors.New("token: invalid")},
	} {
		t.Run(name, func(t *testing.T) {
			restarts := 0
			a := newAgent(Options{
				EnrollmentChanged: func(context.Context) (bool, error) { return c.isDifferent, c.err },
				Restart:           func() { restarts++ },
			})
			require.Equal(t, c.isDifferent, a.restartIfReenrolled(t.Context(), logr.Discard()))
			require.Equal(t, c.isDifferent, restarts == 1)
			require.Equal(t, c.err != nil, a.enrolled.Load(), "the next round must read an invalid Secret again")
		})
	}
	require.False(t, newAgent(Options{}).restartIfReenrolled(t.Context(), logr.Discard()))
}
