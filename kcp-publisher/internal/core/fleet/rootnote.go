package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RootNote is what a publisher notes of its root of trust at its Lease, for whoever has no keys. It is not signed:
// nothing is decided by it.
type RootNote struct {
	Epoch   int64     `json:"epoch"`
	Version int64     `json:"version"`
	Expires time.Time `json:"expires"`
	// Fleet is the name in the root, empty in a root, or of a publisher, of before fleets had names there.
	Fleet string `json:"fleet,omitempty"`
}

// maxRootNoteBytes bounds a note that is read: a publisher's has about 120.
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
	if n.Fleet != "" && trust.CheckRuntimeID(n.Fleet) != nil {
		return RootNote{}, errors.New("the note of the root of trust names no fleet")
	}
	return n, nil
}

// NewestRoot returns when the newest root of trust ends that the notes of a namespace tell of, zero without one.
// Versions are compared within a fleet; of several fleets the first end counts. Notes without a fleet's name count
// where there are no others. Of two notes of one version the earlier end counts.
func NewestRoot(notes []RootNote) time.Time {
	newest := map[string]RootNote{}
	for _, n := range notes {
		before, known := newest[n.Fleet]
		later := n.Epoch > before.Epoch || n.Epoch == before.Epoch && n.Version > before.Version
		same := n.Epoch == before.Epoch && n.Version == before.Version
		if !known || later || same && n.Expires.Before(before.Expires) {
			newest[n.Fleet] = n
		}
	}
	if len(newest) > 1 {
		delete(newest, "")
	}
	var first time.Time
	for _, n := range newest {
		if first.IsZero() || n.Expires.Before(first) {
			first = n.Expires
		}
	}
	return first
}
