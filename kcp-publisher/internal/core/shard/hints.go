package shard

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const (
	// maxHints limits the runtimes in one message. maxWaiting limits the runtimes that wait for the next message.
	maxHints, maxWaiting = 300, 3000
	maxHintsBytes        = 256 << 10
)

// Hints is a message to all other processes about runtimes that may have sent a new report. The process that is
// responsible for a runtime then reads the report before its next poll, at a limited rate. The process does not trust
// the message in any other way.
type Hints struct {
	// Number is the time of the message in Unix nanoseconds.
	Number   int64    `json:"n"`
	Runtimes []string `json:"r"`
}

// Waiting contains the runtimes for the next messages of this process. The zero value is empty.
type Waiting struct {
	order []string
	known map[string]bool
}

// Add adds a runtime. If maxWaiting runtimes are already waiting, it does nothing.
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

// maxAllHintsBytes limits the messages of all processes, because they share a ConfigMap with the announcement and the
// heartbeats, and a ConfigMap can be at most 1 MiB.
const maxAllHintsBytes = 512 << 10

// MessageBytes returns the maximum size of one message. It assumes that each of n processes has the given number of
// messages in the ConfigMap.
func MessageBytes(n, messages int) int { return maxAllHintsBytes / max(n*messages, 1) }

// Take removes and returns the runtimes of the next message, oldest first. It returns only as many runtimes as fit into
// about maxBytes bytes.
func (w *Waiting) Take(maxBytes int) []string {
	const overhead = len(`"",`)
	count, size := 0, 0
	for count < min(len(w.order), maxHints) && size+len(w.order[count])+overhead <= maxBytes {
		size += len(w.order[count]) + overhead
		count++
	}
	next := slices.Clone(w.order[:count])
	w.order = slices.Delete(w.order, 0, len(next))
	for _, runtime := range next {
		delete(w.known, runtime)
	}
	return next
}

// KeptHints returns the messages that were sent after the given time.
func KeptHints(all []Hints, after time.Time) []Hints {
	return slices.DeleteFunc(slices.Clone(all), func(h Hints) bool { return h.Number <= after.UnixNano() })
}

// NewHints decodes messages. It returns the runtimes in the messages that are newer than the message with the number
// last. It ignores invalid messages and runtime IDs. newest is the number of the newest message, but at least last.
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
