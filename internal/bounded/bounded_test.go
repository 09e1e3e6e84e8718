package bounded

import (
	"io"
	"strings"
	"testing"
)

func TestBufferKeepsDataUpToTheLimit(t *testing.T) {
	count := 0
	b := &Buffer{MaxBytes: 5, Full: func() { count++ }}
	for _, text := range []string{"", "abc", "de"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write returned %d, %v, want %d bytes", n, err, len(text))
		}
	}
	if b.HasOverflowed() || count != 0 || b.String() != "abcde" {
		t.Errorf("at the limit: got %q and %d calls of Full, want abcde and none", b.String(), count)
	}
	for range 3 {
		if n, err := io.Copy(b, strings.NewReader("fgh")); n != 3 || err != nil {
			t.Errorf("Copy returned %d, %v, want 3 bytes", n, err)
		}
	}
	if !b.HasOverflowed() || count != 1 || string(b.Bytes()) != "abcde" {
		t.Errorf("above the limit: got %q and %d calls of Full, want abcde and one", b.String(), count)
	}
	unsignaled := &Buffer{MaxBytes: 1}
	if _, err := unsignaled.Write([]byte("ab")); err != nil || !unsignaled.HasOverflowed() || unsignaled.String() != "a" {
		t.Errorf("buffer without Full: got %v, error %v, want the first byte", unsignaled, err)
	}
}
