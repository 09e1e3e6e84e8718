// Package bounded keeps the beginning of what a child process writes. Bytes go in without end; at most so many are kept, and somebody is told when
// there are more.
package bounded

import "bytes"

// Buffer keeps the beginning of what is written. It never fails, so that the writer is not stopped by it but by Full. It embeds no buffer: whoever
// copies into one of those goes by its ReadFrom, which knows no limit. It is for one goroutine.
type Buffer struct {
	// MaxBytes is how much is kept.
	MaxBytes int
	// Full is called once, when more than that is written; it may be nil.
	Full func()

	kept       bytes.Buffer
	overflowed bool
}

// Write keeps what there is room for.
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

// Overflowed reports whether more was written than is kept.
func (b *Buffer) Overflowed() bool { return b.overflowed }

// Bytes returns what was kept.
func (b *Buffer) Bytes() []byte { return b.kept.Bytes() }

// String returns what was kept.
func (b *Buffer) String() string { return b.kept.String() }
