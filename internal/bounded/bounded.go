// Package bounded limits the size of data from other programs: the captured output of a child process, and the bodies
// of HTTP responses.
package bounded

import "bytes"

// Buffer stores the first MaxBytes bytes that are written to it and discards the rest. Write never returns an error.
// Buffer does not embed bytes.Buffer, because io.Copy would call the ReadFrom method of bytes.Buffer, which has no
// limit. Buffer is not safe for concurrent use.
type Buffer struct {
	// MaxBytes limits the size of the stored data.
	MaxBytes int
	// Full is called once when the data exceeds MaxBytes, for example to stop the writer. It can be nil.
	Full func()

	stored     bytes.Buffer
	overflowed bool
}

// Write stores data until MaxBytes is reached and discards the rest.
func (b *Buffer) Write(p []byte) (int, error) {
	room := max(b.MaxBytes-b.stored.Len(), 0)
	b.stored.Write(p[:min(len(p), room)])
	if len(p) > room && !b.overflowed {
		b.overflowed = true
		if b.Full != nil {
			b.Full()
		}
	}
	return len(p), nil
}

// HasOverflowed reports whether data was dropped.
func (b *Buffer) HasOverflowed() bool { return b.overflowed }

// Bytes returns the stored data.
func (b *Buffer) Bytes() []byte { return b.stored.Bytes() }

// String returns the stored data as text.
func (b *Buffer) String() string { return b.stored.String() }
