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

	kept       bytes.Buffer
	overflowed bool
}

// Write stores data until MaxBytes is reached and discards the rest.
func (b *Buffer) Write(p []byte) (int, error) {
	room := max(b.MaxBytes-b.kept.Len(), 0)
	b.kept.Write(p[:min(len(p), room)])
	if len(p) > room && !b.overflowed {
		b.overflowed = true
		if b.Full != nil {
			b.Full()
		}
	}
	return len(p), nil
}

// Overflowed reports whether data was dropped.
func (b *Buffer) Overflowed() bool { return b.overflowed }

// Bytes returns the stored data.
func (b *Buffer) Bytes() []byte { return b.kept.Bytes() }

// String returns the stored data as text.
func (b *Buffer) String() string { return b.kept.String() }
