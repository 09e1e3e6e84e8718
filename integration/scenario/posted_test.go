package scenario

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// postedEvents records the Events that a publisher posted to a webhook, as "severity Kind/name reason". It is safe
// for concurrent use.
type postedEvents struct {
	reasons []string // the posted Events' reasons

	mu   sync.Mutex // guards the fields below
	seen []string
}

// eventsWebhook starts a webhook. It returns the flags that make a publisher post Events with the given reasons to this
// webhook.
func eventsWebhook(t *testing.T, reasons ...string) (*postedEvents, []string) {
	t.Helper()
	posted := &postedEvents{reasons: reasons}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct {
			InvolvedObject   struct{ Kind, Name string }
			Severity, Reason string
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		posted.mu.Lock()
		defer posted.mu.Unlock()
		posted.seen = append(posted.seen, event.Severity+" "+event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name+
			" "+event.Reason)
	}))
	t.Cleanup(server.Close)
	return posted, []string{"--set", "events-addr=" + server.URL, "--set", "events-reasons=" + strings.Join(reasons, ",")}
}

// wantPosted waits until all wanted Events are posted. An Event with another reason fails the test.
func (p *postedEvents) wantPosted(t *testing.T, want ...string) {
	t.Helper()
	until(t, time.Minute, "the webhook receives the wanted Events", func() (bool, string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(p.seen, w) })
		return len(missing) == 0, "missing:\n" + strings.Join(missing, "\n") + "\nposted:\n" +
			strings.Join(p.seen, "\n")
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.seen {
		if reason := event[strings.LastIndex(event, " ")+1:]; !slices.Contains(p.reasons, reason) {
			t.Errorf("the publisher posted %s, want only reasons %v", event, p.reasons)
		}
	}
}

// untilEvents waits until a runtime's Kyma has an Event with each of these reasons.
func untilEvents(t *testing.T, f *fleet.Fleet, runtime string, reasons ...string) {
	t.Helper()
	until(t, time.Minute, "Events report the changes of "+runtime, func() (bool, string) {
		var all eventsv1.EventList
		if err := f.Control.List(t.Context(), &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		var notes []string
		for _, e := range all.Items {
			if e.Regarding.Kind == "Kyma" && e.Regarding.Name == runtime {
				seen[e.Reason] = true
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return !slices.ContainsFunc(reasons, func(reason string) bool { return !seen[reason] }),
			strings.Join(notes, "\n")
	})
}
