package ui

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// streamEvery is how often a stream tells of changes at most, streamPing how often it says something, so that proxies keep it.
	streamEvery = 2 * time.Second
	streamPing  = 20 * time.Second
	// streamFor is how long a stream lasts: the browser then connects anew, and is asked anew who it is and what it may see.
	streamFor = time.Minute
	// writeWithin is how long a browser may take to read an event.
	writeWithin = 10 * time.Second
)

// live tells a page by server-sent events that the fleet changed, so that it asks for itself again. An event says nothing else: what a viewer may
// see is decided where the page is made.
func (p *pages) live(w http.ResponseWriter, r asked) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
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
	end, ping := time.NewTimer(streamFor), time.NewTicker(streamPing)
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
			if !pause(r, streamEvery) {
				return
			}
			current, next, _ = p.Source.snapshot()
			if !say("event: fleet\ndata: %d\n\n", current.revision) {
				return
			}
		}
	}
}

// pause waits before a page is told, so that many changes are one; it reports whether anybody still listens.
func pause(r asked, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-timer.C:
		return true
	}
}
