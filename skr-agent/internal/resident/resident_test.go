package resident

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackWhenWorkIsOver(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var r rest
	for _, look := range []struct {
		after, used time.Duration
		gives       bool
		why         string
	}{
		{5 * time.Second, time.Second, false, "it starts"},
		{10 * time.Second, 1005 * time.Millisecond, true, "it has started"},
		{15 * time.Second, 1010 * time.Millisecond, false, "it rests"},
		{20 * time.Second, 1020 * time.Millisecond, false, "it works"},
		{24 * time.Second, 1020 * time.Millisecond, false, "that was soon after the last time"},
		{60 * time.Second, 1021 * time.Millisecond, true, "it rests long after"},
		{600 * time.Second, 1027 * time.Millisecond, false, "it did nothing worth it"},
		{605 * time.Second, 1030 * time.Millisecond, true, "it did in small steps"},
	} {
		gives := r.begins(start.Add(look.after), look.used)
		require.Equal(t, look.gives, gives, look.why)
		if gives {
			r = rest{since: start.Add(look.after), used: look.used, last: look.used}
		}
	}
}

func TestProcessorTimeGrows(t *testing.T) {
	before := processorTime()
	for n, deadline := 0, time.Now().Add(10*time.Second); processorTime() == before && time.Now().Before(deadline); n++ {
		_ = n * n
	}
	require.Greater(t, processorTime(), before)
}
