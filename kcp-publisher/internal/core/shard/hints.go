package shard

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const (
	// maxHints limits the runtimes in one message. maxWaiting limits the runtimes that wait for a message.
	maxHints, maxWaiting = 300, 3000
	maxHintsBytes        = 256 << 10
)

// Hints contains runtimes that may have reported. A process sends them to the process that owns the runtime's shard. A
// hint has no authority: the receiver only reads the report earlier, at a limited rate.
type Hints struct {
	// Number is the time of the message in Unix nanoseconds.
	Number   int64    `json:"n"`
	Runtimes []string `json:"r"`
}

// Waiting contains the runtimes whose hints are not sent yet. The zero value is empty.
type Waiting struct {
	order []string
	known map[string]bool
}

// Add adds a runtime. It drops the hint if too many runtimes wait.
func (w *Waiting) Add(runtime string) {
	if w.known[runtime] || len(w.order) >= maxWaiting {
		return
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[runtime] = true
	w.order = append(w.order, runtime)
}

// Take removes and returns the runtimes of the next message, oldest first.
func (w *Waiting) Take() []string {
	next := slices.Clone(w.order[:min(len(w.order), maxHints)])
	w.order = slices.Delete(w.order, 0, len(next))
	for _, runtime := range next {
		delete(w.known, runtime)
	}
	return next
}

// KeptHints returns the messages that were sent after a time.
func KeptHints(all []Hints, after time.Time) []Hints {
	return slices.DeleteFunc(slices.Clone(all), func(h Hints) bool { return h.Number <= after.UnixNano() })
}

// NewHints returns the runtimes in encoded messages that are newer than the message with the number last. It ignores
// invalid messages and runtime IDs. newest is the number of the newest message, or last.
func NewHints(text string, last int64) (runtimes []string, newest int64) {
	newest = last
	var all []Hints
	if len(text) > maxHintsBytes || json.Unmarshal([]byte(text), &all) != nil {
		return nil, last
	}
	for _, h := range all {
		if h.Number <= last {
			continue
		}
		newest = max(newest, h.Number)
		for _, runtime := range h.Runtimes[:min(len(h.Runtimes), maxHints)] {
			if trust.CheckRuntimeID(runtime) == nil {
				runtimes = append(runtimes, runtime)
			}
		}
	}
	return runtimes, newest
}
