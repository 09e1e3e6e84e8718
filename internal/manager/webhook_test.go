package manager

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func written(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startPosting starts posting Events until the test ends. It returns a function that records an Event, and a channel
// with log lines.
func startPosting(t *testing.T, to webhook) (func(eventType, reason string), chan string) {
	t.Helper()
	logged := make(chan string, 100)
	p := newPosts(to, clientgoscheme.Scheme, funcr.New(func(_, args string) { logged <- args }, funcr.Options{}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	recorder := p.recorder("kcp-publisher", events.NewFakeRecorder(1000))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "one"}}
	return func(eventType, reason string) {
		recorder.Eventf(object, nil, eventType, reason, "Test", "something happened")
	}, logged
}

func arrives[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("received nothing within a minute")
		panic("unreachable")
	}
}

func TestWebhookUsesHeadersAndCA(t *testing.T) {
	tokens := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization") + r.Header.Get("X-Team")
	}))
	defer server.Close()
	ca := written(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	headers := written(t, "headers", []byte("Authorization: Bearer first\nX-Team: fleet\n"))
	to := webhook{address: server.URL, severity: severityInfo, headers: headers, ca: ca}
	if err := to.check(); err != nil {
		t.Fatal(err)
	}
	post, _ := startPosting(t, to)
	post(corev1.EventTypeNormal, "RolloutSucceeded")
	if got := arrives(t, tokens); got != "Bearer firstfleet" {
		t.Errorf("got headers %q, want both headers of the file", got)
	}
	if err := os.WriteFile(headers, []byte("Authorization: Bearer second"), 0o600); err != nil {
		t.Fatal(err)
	}
	post(corev1.EventTypeNormal, "RolloutSucceeded")
	if got := arrives(t, tokens); got != "Bearer second" {
		t.Errorf("got headers %q after the file changed, want the new token", got)
	}
}

func TestEventsAreFilteredBySeverityAndReason(t *testing.T) {
	reasons := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4096)
		n, _ := r.Body.Read(body)
		for _, reason := range []string{"RolloutBegun", "RuntimeSilent", "ReportRefused"} {
			if strings.Contains(string(body[:n]), `"reason":"`+reason+`"`) {
				reasons <- reason
			}
		}
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		severity string
		reasons  []string
		want     string
	}{
		"all events":    {severityInfo, nil, "[RolloutBegun RuntimeSilent ReportRefused]"},
		"only Warnings": {severityError, nil, "[RuntimeSilent ReportRefused]"},
		"only listed reasons": {
			severityInfo, []string{"RolloutBegun", "ReportRefused"}, "[RolloutBegun ReportRefused]",
		},
		"only Warnings with listed reasons": {
			severityError, []string{"RolloutBegun", "ReportRefused"}, "[ReportRefused]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			post, _ := startPosting(t, webhook{address: server.URL, severity: c.severity, reasons: c.reasons})
			post(corev1.EventTypeNormal, "RolloutBegun")
			post(corev1.EventTypeWarning, "RuntimeSilent")
			post(corev1.EventTypeWarning, "ReportRefused")
			var got []string
			// Every case ends with ReportRefused, and Events are posted in order.
			for len(got) == 0 || got[len(got)-1] != "ReportRefused" {
				got = append(got, arrives(t, reasons))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("got reasons %v, want %s", got, c.want)
			}
		})
	}
}

// Not every Event belongs to a runtime. For example, the Event about an expiring root of trust refers to the
// publisher's Lease.
func TestEventWithObjectReferenceIsPosted(t *testing.T) {
	posted := make(chan map[string]any, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		event := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		posted <- event
	}))
	defer server.Close()
	p := newPosts(webhook{address: server.URL, severity: severityError, reasons: []string{"RootExpires"}},
		clientgoscheme.Scheme, discardLogger)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	lease := &corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1",
		Kind:       "Lease",
		Namespace:  "kcp-system",
		Name:       "kcp-publisher.kyma-pull.dev",
	}
	p.recorder("kcp-publisher", events.NewFakeRecorder(1)).
		Eventf(lease, nil, corev1.EventTypeWarning, "RootExpires", "Keys", "%s", "root of trust 3 expires")
	event := arrives(t, posted)
	about, _ := event["involvedObject"].(map[string]any)
	if about["kind"] != "Lease" || about["name"] != lease.Name || event["severity"] != "error" ||
		event["message"] != "root of trust 3 expires" {
		t.Errorf("got event %v, want the event of the Lease", event)
	}
}

func TestWebhookRetriesIgnoreRetryAfter(t *testing.T) {
	var asked atomic.Int32
	answered := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			answered <- struct{}{}
		case 3:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	post, logged := startPosting(t, webhook{address: server.URL, severity: severityInfo})
	post(corev1.EventTypeWarning, "RuntimeSilent")
	arrives(t, answered)
	post(corev1.EventTypeWarning, "RuntimeSilent")
	if text := arrives(t, logged); !strings.Contains(text, "refused an event") {
		t.Errorf("got log line %s, want a refused event", text)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("got %d requests, want 3, because a refused event is not retried", n)
	}
}

func TestPostedEventsAreRateLimited(t *testing.T) {
	p := newPosts(webhook{address: "http://127.0.0.1:1"}, clientgoscheme.Scheme, discardLogger)
	now := time.Now()
	for i := range postsAtOnce {
		if !p.limit.AllowN(now, 1) {
			t.Fatalf("event %d of the burst is delayed, want no delay", i)
		}
	}
	if p.limit.AllowN(now, 1) || !p.limit.AllowN(now.Add(time.Second), 1) {
		t.Error("events after the burst are not limited to one per second")
	}
}

func TestInvalidEventFlagsAreRefused(t *testing.T) {
	token, bad := written(t, "headers", []byte("Authorization: Bearer x")), written(t, "bad", []byte("a token"))
	for name, c := range map[string]struct {
		to   webhook
		want string
	}{
		"address without a scheme": {webhook{address: "hooks.example", severity: severityInfo}, "events-addr"},
		"unknown severity":         {webhook{severity: "fatal"}, "events-severity"},
		"headers without an address": {
			webhook{severity: severityInfo, headers: token}, "require events-addr",
		},
		"headers over HTTP": {
			webhook{address: "http://hooks.example", severity: severityInfo, headers: token}, "plain HTTP",
		},
		"malformed headers": {
			webhook{address: "https://hooks.example", severity: severityInfo, headers: bad},
			"must contain lines such as",
		},
		"missing headers file": {
			webhook{address: "https://hooks.example", severity: severityInfo, headers: bad + "x"}, "no such file",
		},
	} {
		if err := c.to.check(); err == nil || !cli.IsUsage(err) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "a token") {
			t.Errorf("%s: got error %v, want a usage error with %q", name, err, c.want)
		}
	}
}
