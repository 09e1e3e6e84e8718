package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// RootNote is what a publisher notes of its root of trust at its Lease, for whoever has no keys. It is not signed: nothing is decided by it.
type RootNote struct {
	Epoch   int64     `json:"epoch"`
	Version int64     `json:"version"`
	Expires time.Time `json:"expires"`
}

// maxRootNoteBytes bounds a note that is read: a publisher's has about 70.
const maxRootNoteBytes = 512

// String returns the note as it is written.
func (n RootNote) String() string {
	data, err := json.Marshal(n)
	if err != nil {
		return "" // a time after the year 9999, of which there is nothing to warn
	}
	return string(data)
}

// ParseRootNote reads a note. Whoever may write Leases may have written it.
func ParseRootNote(text string) (RootNote, error) {
	var n RootNote
	if len(text) > maxRootNoteBytes {
		return n, fmt.Errorf("the note of the root of trust has %d bytes, at most %d are read", len(text), maxRootNoteBytes)
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return RootNote{}, fmt.Errorf("the note of the root of trust: %w", err)
	}
	if n.Version < 1 || n.Expires.IsZero() {
		return RootNote{}, errors.New("the note of the root of trust has no version or no end")
	}
	return n, nil
}

// NewestRoot returns the end of the newest root of trust among notes, zero without one. Of two notes of one version the earlier end counts.
func NewestRoot(notes []RootNote) time.Time {
	var newest RootNote
	for _, n := range notes {
		later := n.Epoch > newest.Epoch || n.Epoch == newest.Epoch && n.Version > newest.Version
		same := n.Epoch == newest.Epoch && n.Version == newest.Version
		if newest.Expires.IsZero() || later || same && n.Expires.Before(newest.Expires) {
			newest = n
		}
	}
	return newest.Expires
}
