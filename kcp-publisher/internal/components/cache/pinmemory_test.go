package cache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

func TestPinsDroppedFromMemoryAreReadFromDisk(t *testing.T) {
	c := open(t, t.TempDir(), 1<<20)
	first, other := digest.FromString("first"), digest.FromString("other")
	if err := c.Pin("keda:1.0.0", first); err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("x", maxNameBytes-8)
	for i := range 2 * maxPinsBytes / maxNameBytes {
		c.addPin(pin{Name: fmt.Sprintf("%s%08d", name, i), Digest: other})
	}
	if entries, bytes := c.pins.Size(); bytes > maxPinsBytes || entries < 1000 {
		t.Errorf("got %d pins with %d bytes in memory, want at most %d bytes", entries, bytes, maxPinsBytes)
	}
	if _, inMemory := c.pins.Get("keda:1.0.0"); inMemory {
		t.Fatal("the oldest pin is still in memory")
	}
	if d, ok := c.Pinned("keda:1.0.0"); !ok || d != first {
		t.Errorf("dropped pin: got %s, %t, want %s", d, ok, first)
	}
	if err := c.Pin("keda:1.0.0", other); err == nil {
		t.Error("another digest is accepted for a dropped pin")
	}
}
