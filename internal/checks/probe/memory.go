package probe

import (
	"bytes"
	"context"
	"fmt"
)

const (
	// maxSmallBytes is the maximum size of decoded JSON that a measurement can use without a call to Memory.acquire.
	maxSmallBytes = 4 << 20
	// maxDecodedBytes limits the decoded size of one check's objects.
	maxDecodedBytes = 64 << 20
	// objectBytes and valueBytes are the memory for a decoded JSON object and for each of its fields or elements.
	objectBytes, valueBytes = 336, 80
)

// decodedBytes estimates the memory for decoded JSON. A short JSON object such as {"a":1} needs more than forty times
// its size, so limiting the size alone does not limit the memory. The estimate is too high for JSON in strings.
func decodedBytes(data []byte) int64 {
	return int64(len(data) + objectBytes*bytes.Count(data, []byte("{")) +
		valueBytes*(bytes.Count(data, []byte(","))+bytes.Count(data, []byte("["))))
}

// Memory limits the memory for concurrent measurements. At most one measurement at a time decodes more than
// maxSmallBytes. All Probers in a process must share one Memory.
type Memory struct{ large chan struct{} }

// NewMemory returns a Memory for one process.
func NewMemory() *Memory { return &Memory{large: make(chan struct{}, 1)} }

// acquire waits until no other measurement decodes large JSON. The caller must call the returned function.
func (m *Memory) acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other memory-intensive checks to finish: %w", ctx.Err())
	case m.large <- struct{}{}:
		return func() { <-m.large }, nil
	}
}
