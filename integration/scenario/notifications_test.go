package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const distributionEvents = "application/vnd.docker.distribution.events.v2+json"

// pushOf returns the notification that a distribution registry sends after a push to a repository.
func pushOf(repository string) string {
	return fmt.Sprintf(`{"events":[{"action":"push","target":{"repository":%q,"tag":"latest"}}]}`, repository)
}

// notifyAs posts a notification as a registry does, and returns the HTTP status.
func notifyAs(t *testing.T, n *fleet.Notifications, token, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.ReceiverURL(), strings.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", distributionEvents)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

// listen subscribes to notifications as a user and returns the HTTP status.
func listen(t *testing.T, n *fleet.Notifications, user, password string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.AgentsURL(), nil)
	must(t, err)
	request.SetBasicAuth(user, password)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

// passwordOf derives a user's registry password from the key folder.
func passwordOf(t *testing.T, f *fleet.Fleet, user string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), f.Binaries().Publisher, "registry", "credentials", user, "--keys",
		f.Keys(), "--location", f.Location()).Output()
	must(t, err)
	_, auth, _ := strings.Cut(string(output), `"auth":"`)
	auth, _, _ = strings.Cut(auth, `"`)
	request := &http.Request{Header: http.Header{"Authorization": {"Basic " + auth}}}
	_, password, _ := request.BasicAuth()
	return password
}

// With a polling interval of ten minutes, only a notification can announce a promotion in time. Then the test
// replaces the notification server with one that sends false notifications.
func TestPromotionArrivesByNotificationOrPoll(t *testing.T) {
	ctx := t.Context()
	n, err := fleet.NewNotifications()
	must(t, err)
	f := newFleet(t, fleet.Options{Notifications: n, PublisherFlags: []string{
		"--set=report-poll-interval=10m", "--agent-poll-interval=10m", "--agent-report-interval=10m",
	}, AgentFlags: []string{"--poll-interval=10m", "--report-interval=10m"}})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	one := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	began := time.Now()
	promote(t, f, "1.8.0")
	must(t, one.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	t.Logf("promoted, installed and reported after %s", time.Since(began).Round(10*time.Millisecond))

	t.Run("unauthorized clients are refused", func(t *testing.T) {
		for _, token := range []string{"", strings.Repeat("x", len(n.Token))} {
			if code := notifyAs(t, n, token, pushOf("fleet/reports/one")); code != http.StatusUnauthorized {
				t.Errorf("token %q: unexpected status %d", token, code)
			}
		}
		if code := notifyAs(t, n, n.Token, strings.Repeat(" ", 3<<20)); code != http.StatusRequestEntityTooLarge {
			t.Errorf("oversized body: unexpected status %d", code)
		}
		password := passwordOf(t, f, "two")
		for _, c := range []struct {
			user, password string
			want           int
		}{{"two", password, http.StatusOK}, {"one", password, http.StatusUnauthorized},
			{"one", "", http.StatusUnauthorized}} {
			if code := listen(t, n, c.user, c.password); code != c.want {
				t.Errorf("user %s with password %q: unexpected status %d", c.user, c.password, code)
			}
		}
	})
	t.Run("forged notifications cause few registry requests", func(t *testing.T) {
		untilQuiet(t, f)
		before, err := one.Record(ctx)
		must(t, err)
		asked, began := f.Registry.Requests(), time.Now()
		for i := range 500 {
			for _, repository := range []string{"fleet/reports/one", fmt.Sprintf("fleet/reports/nobody-%d", i),
				"fleet/reports/../one"} {
				if code := notifyAs(t, n, n.Token, pushOf(repository)); code != http.StatusAccepted &&
					code != http.StatusTooManyRequests {
					t.Fatalf("forged notification: unexpected status %d", code)
				}
			}
		}
		untilQuiet(t, f)
		after, err := one.Record(ctx)
		must(t, err)
		// The publisher reads the runtime's report at most once every two seconds, and each read takes a few requests.
		if most := 10 + 5*int64(time.Since(began)/time.Second); f.Registry.Requests()-asked > most {
			t.Errorf("got %d requests for 1,500 notifications in %s, want at most %d", f.Registry.Requests()-asked,
				time.Since(began), most)
		}
		if before.ResourceVersion != after.ResourceVersion {
			t.Errorf("the Kyma's resource version changed from %s to %s", before.ResourceVersion, after.ResourceVersion)
		}
	})
	t.Run("agent with a wrong notification endpoint still polls", func(t *testing.T) {
		must(t, f.Publisher().Kill())
		liar := startFalseNotifier(t, n.Agents)
		must(t, f.RestartPublisher())
		// Without a restart, the agent would learn the shorter interval only at its next poll, in ten minutes.
		must(t, one.CrashAgent())
		until(t, 30*time.Second, "the agent connects to the false endpoint", func() (bool, string) {
			return liar.Load() > 0, "not yet"
		})
		promote(t, f, "1.9.0")
		must(t, one.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
	})
}

// startFalseNotifier starts a server at the publisher's address that sends endless false notifications. It returns the
// server's request counter.
func startFalseNotifier(t *testing.T, address string) *atomic.Int64 {
	t.Helper()
	var asked atomic.Int64
	listener, err := loopback.ListenAt(context.WithoutCancel(t.Context()), address)
	must(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := fmt.Fprint(w, "data: bundle\n\n"); err != nil {
					return
				}
			}
		})}
	var group sync.WaitGroup
	group.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { _ = server.Close(); group.Wait() })
	return &asked
}
