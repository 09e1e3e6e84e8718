package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

func TestAgentRestartsAfterChangeOfBootstrapSecret(t *testing.T) {
	type answer struct {
		again bool
		err   error
	}
	for name, c := range map[string]struct {
		first, changed bool
		answer         answer
		read, restarts int
	}{
		"Secret did not change":            {read: 0},
		"Secret changed":                   {changed: true, answer: answer{again: true}, read: 1, restarts: 1},
		"Secret applied without a change":  {changed: true, read: 1},
		"Secret changed before leadership": {first: true, answer: answer{again: true}, read: 1, restarts: 1},
		"first round without a change":     {first: true, read: 1},
		"new content of Secret is invalid": {changed: true, answer: answer{err: errors.New("token: invalid")}, read: 1},
	} {
		t.Run(name, func(t *testing.T) {
			read, restarts := 0, 0
			a := New(Options{
				EnrollmentChanged: func(context.Context) (bool, error) { read++; return c.answer.again, c.answer.err },
				Restart:           func() { restarts++ },
			})
			a.enrolled.Store(c.changed)
			require.Equal(t, c.restarts > 0, a.restartIfReenrolled(t.Context(), logr.Discard(), c.first))
			require.Equal(t, []int{c.read, c.restarts}, []int{read, restarts})
			require.Equal(t, c.answer.err != nil, a.enrolled.Load(), "the next round must read an invalid Secret again")
		})
	}
}
