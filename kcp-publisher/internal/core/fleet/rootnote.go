package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RootNote describes the root of trust that a publisher uses. The publisher writes it to an annotation on its Lease. It
// is not signed, so it is only for display.
type RootNote struct {
	Epoch   int64     `json:"epoch"`
	Version int64     `json:"version"`
	Expires time.Time `json:"expires"`
	// Fleet is the fleet name in the root of trust. It is empty for roots of trust that were created before fleet names
	// existed.
	Fleet string `json:"fleet,omitempty"`
}

const maxRootNoteBytes = 512

func (n RootNote) String() string {
	data, err := json.Marshal(n)
	if err != nil {
		return "" // encoding fails only for an expiry after the year 9999
	}
	return string(data)
}

// ParseRootNote decodes a RootNote. The input is untrusted.
func ParseRootNote(text string) (RootNote, error) {
	var n RootNote
	if len(text) > maxRootNoteBytes {
		return n, fmt.Errorf("root of trust annotation is %d bytes, must be at most %d", len(text), maxRootNoteBytes)
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return RootNote{}, fmt.Errorf("root of trust annotation: %w", err)
	}
	if n.Version < 1 || n.Expires.IsZero() {
		return RootNote{}, errors.New("root of trust annotation: version and expiry are required")
	}
	if n.Fleet != "" && trust.CheckRuntimeID(n.Fleet) != nil {
		return RootNote{}, errors.New("root of trust annotation: fleet name is invalid")
	}
	return n, nil
}

// NewestRoot returns the expiry of the latest root of trust in notes, or zero. If the notes belong to several fleets,
// it returns the earliest expiry among the latest roots of trust of these fleets.
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
