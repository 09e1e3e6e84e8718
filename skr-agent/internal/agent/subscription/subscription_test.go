package subscription

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// run runs a Subscription with a fake clock. It returns the number of connections and the times of polls.
func run(
	t *testing.T, lasts time.Duration, open func(ctx context.Context) (io.ReadCloser, error),
) (connections int64, polls []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var opened atomic.Int64
		s := New(Options{
			Log: logr.Discard(), Notify: func() { polls = append(polls, time.Since(began)) },
			Open: func(ctx context.Context) (io.ReadCloser, error) {
				opened.Add(1)
				return open(ctx)
			},
		})
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Start(ctx) }()
		time.Sleep(lasts)
		cancel()
		<-ended
		synctest.Wait()
		connections = opened.Load()
	})
	return connections, polls
}

// sends returns a response that sends each line after a delay and then stays open.
func sends(ctx context.Context, every time.Duration, lines ...string) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		for _, line := range lines {
			select {
			case <-time.After(every):
			case <-ctx.Done():
			}
			if _, err := io.WriteString(writer, line); err != nil {
				return
			}
		}
		<-ctx.Done()
		_ = writer.CloseWithError(ctx.Err())
	}()
	return reader
}

func TestNotificationRequestsPoll(t *testing.T) {
	connections, polls := run(t, 90*time.Second, func(ctx context.Context) (io.ReadCloser, error) {
		return sends(ctx, 20*time.Second, ":\n\n", "data: bundle\n\n", ": data: no\n\n", "id: 7\ndata: bundle\n\n"), nil
	})
	want := []time.Duration{0, 40 * time.Second, 80 * time.Second} // for the connection and for two notifications
	if connections != 1 || len(polls) != len(want) {
		t.Fatalf("got %d connections and polls after %v, want 1 connection and polls after %v", connections, polls,
			want)
	}
	for i := range want {
		if polls[i] != want[i] {
			t.Errorf("got polls after %v, want %v", polls, want)
		}
	}
}

func TestConcurrentNotificationsRequestOnePoll(t *testing.T) {
	_, polls := run(t, time.Minute, func(ctx context.Context) (io.ReadCloser, error) {
		return sends(ctx, 300*time.Millisecond, "data: bundle\n\n", "data: bundle\n\n", "data: bundle\n\n"), nil
	})
	if len(polls) != 2 || polls[1] != pollSpacing {
		t.Errorf("got polls after %v, want one for the connection and one for all notifications within a second", polls)
	}
}

func TestAgentFindsTheReplicaForItsRuntime(t *testing.T) {
	attempts := 0
	_, polls := run(t, 2*time.Minute, func(ctx context.Context) (io.ReadCloser, error) {
		if attempts++; attempts < maxSearches {
			return nil, store.ErrOtherReplica
		}
		return sends(ctx, time.Hour), nil
	})
	// With increasing intervals, this many attempts would take half an hour.
	if len(polls) == 0 || polls[0] > 2*maxSearches*searchPause {
		t.Errorf("the agent polled after %v, want a connection after %d attempts", polls, maxSearches)
	}
}

func TestHostileEndpointCausesFewPolls(t *testing.T) {
	lies := func(lines string) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(lines)), nil }
	}
	for name, c := range map[string]struct {
		open            func(ctx context.Context) (io.ReadCloser, error)
		connects, polls int64
	}{
		"endless notifications on one connection": {lies(strings.Repeat("data: bundle\n\n", 1_000_000)), 100, 100},
		"thousands of notifications per second": {func(ctx context.Context) (io.ReadCloser, error) {
			return sends(ctx, time.Second, strings.Repeat("data: bundle\n", 4000)), nil
		}, 100, 100},
		"one notification per second": {func(ctx context.Context) (io.ReadCloser, error) {
			return sends(ctx, time.Second, strings.SplitAfter(strings.Repeat("data: bundle\n", 4000), "\n")...), nil
		}, 1, 366},
		"endless line": {lies("data:" + strings.Repeat("x", 1<<20)), 100, 100},
		"silent connection": {
			func(ctx context.Context) (io.ReadCloser, error) { return sends(ctx, 0), nil }, 40, 40,
		},
		"connection closed immediately": {lies(""), 100, 100},
		"connection refused with 401": {
			func(context.Context) (io.ReadCloser, error) { return nil, errors.New("401") }, 100, 0,
		},
		"endless search for another replica": {
			func(context.Context) (io.ReadCloser, error) { return nil, store.ErrOtherReplica }, 120, 0,
		},
		"connection timeout": {func(context.Context) (io.ReadCloser, error) {
			<-time.After(30 * time.Second)
			return nil, errors.New("timeout")
		}, 100, 0},
	} {
		connections, polls := run(t, time.Hour, c.open)
		if connections > c.connects || int64(len(polls)) > c.polls || connections == 0 {
			t.Errorf("%s: got %d connections and %d polls in an hour, want at most %d and %d", name, connections,
				len(polls), c.connects, c.polls)
		}
		for i := 1; i < len(polls); i++ {
			if polls[i]-polls[i-1] < pollSpacing-time.Microsecond { // tolerates rounding in the limiter
				t.Errorf("%s: got polls after %s and %s, want at least %s between them", name, polls[i-1], polls[i],
					pollSpacing)
			}
		}
	}
}

func TestSubscriptionReconnectsToRestartedPublisher(t *testing.T) {
	var began time.Time
	connections, polls := run(t, time.Hour+3*time.Minute, func(ctx context.Context) (io.ReadCloser, error) {
		if began.IsZero() {
			began = time.Now()
			reader, writer := io.Pipe()
			go func() {
				for range 120 {
					time.Sleep(30 * time.Second)
					_, _ = io.WriteString(writer, ":\n\n")
				}
				_ = writer.Close()
			}()
			return reader, nil
		}
		if time.Since(began) < time.Hour+time.Minute {
			return nil, errors.New("connection refused")
		}
		return sends(ctx, 0), nil
	})
	if connections < 3 || len(polls) < 2 || polls[1] < time.Hour+time.Minute {
		t.Errorf("got %d connections and polls after %v, want at least 3 connections and a poll after the restart",
			connections, polls)
	}
}

func TestClosedConnectionIsNotLogged(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var opened []time.Duration
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		s := New(Options{Log: log, Notify: func() {}, Open: func(context.Context) (io.ReadCloser, error) {
			opened = append(opened, time.Since(began))
			reader, writer := io.Pipe()
			go func() {
				for range 80 {
					time.Sleep(30 * time.Second)
					_, _ = io.WriteString(writer, ":\n\n")
				}
				_ = writer.Close()
			}()
			return reader, nil
		}})
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Start(ctx) }()
		time.Sleep(24 * time.Hour)
		cancel()
		<-ended
		time.Sleep(time.Hour) // by then, the last connection has ended
	})
	for i := 1; i < len(opened); i++ {
		if pause := opened[i] - opened[i-1] - 40*time.Minute; pause > reconnectSpread {
			t.Errorf("got a reconnect after %s, want at most %s", pause, reconnectSpread)
		}
	}
	if len(opened) < 35 || len(lines) != 1 {
		t.Errorf("got %d connections and log lines %q, want at least 35 connections and one line", len(opened), lines)
	}
}
