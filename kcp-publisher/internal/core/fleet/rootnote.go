package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RootNote is a publisher's record of its root of trust on its Lease, for readers without keys. It is not signed, and
// no decision depends on it.
type RootNote struct {
	Epoch   int64     `json:"epoch"`
	Version int64     `json:"version"`
	Expires time.Time `json:"expires"`
	// Fleet is the name in the root. Older roots and publishers have none.
	Fleet string `json:"fleet,omitempty"`
}

// maxRootNoteBytes limits a note. A publisher's note has about 120 bytes.
const maxRootNoteBytes = 512

// String returns the encoded note.
func (n RootNote) String() string {
	data, err := json.Marshal(n)
	if err != nil {
		return "" // a time after the year 9999 needs no warning
	}
	return string(data)
}

// ParseRootNote decodes a note. Any client with write access to Leases may have written it.
func ParseRootNote(text string) (RootNote, error) {
	var n RootNote
	if len(text) > maxRootNoteBytes {
		return n, fmt.Errorf("root of trust note: %d bytes, at most %d", len(text), maxRootNoteBytes)
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return RootNote{}, fmt.Errorf("root of trust note: %w", err)
	}
	if n.Version < 1 || n.Expires.IsZero() {
		return RootNote{}, errors.New("root of trust note: version and expiry are required")
	}
	if n.Fleet != "" && trust.CheckRuntimeID(n.Fleet) != nil {
		return RootNote{}, errors.New("root of trust note: fleet is required")
	}
	return n, nil
}

// NewestRoot returns the expiry of the latest root of trust in the notes of a namespace, or zero. It compares versions
// within a fleet and returns the first expiry of several fleets. Notes without a fleet are only used if there are no
// others. Of two notes with the same version, the earlier expiry applies.
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
