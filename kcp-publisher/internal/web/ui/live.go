package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/kyma-pull/kyma-pull/internal/pause"
)

const (
	// streamEvery is the minimum interval between two events. streamPing is the interval between comments, which
	// prevent proxies from closing the stream.
	streamEvery = 2 * time.Second
	streamPing  = 20 * time.Second
	// streamDuration is the maximum duration of an event stream. The browser then reconnects, and the user is
	// authenticated again.
	streamDuration = time.Minute
	writeWithin    = 10 * time.Second
)

// streamChanges sends a server-sent event with a revision number after each change to the fleet. The browser then
// loads the page again, which checks the viewer's permissions.
func (p *pages) streamChanges(w http.ResponseWriter, r pageRequest) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many open pages", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	say := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	end, ping := time.NewTimer(streamDuration), time.NewTicker(streamPing)
	defer end.Stop()
	defer ping.Stop()
	current, next := r.fleet, r.next
	if !say("retry: 500\nevent: fleet\ndata: %d\n\n", current.revision) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-ping.C:
			if !say(": still here\n\n") {
				return
			}
		case <-next:
			if !pause.Sleep(r.Context(), streamEvery) {
				return
			}
			current, next, _ = p.Source.snapshot()
			if !say("event: fleet\ndata: %d\n\n", current.revision) {
				return
			}
		}
	}
}
