package bounded

import (
	"io"
	"strings"
	"testing"
)

func TestBufferKeepsTheBeginning(t *testing.T) {
	count := 0
	b := &Buffer{MaxBytes: 5, Full: func() { count++ }}
	for _, text := range []string{"", "abc", "de"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Error(n, err)
		}
	}
	if b.Overflowed() || count != 0 || b.String() != "abcde" {
		t.Errorf("%q, Full was called %d times", b.String(), count)
	}
	for range 3 {
		if n, err := io.Copy(b, strings.NewReader("fgh")); n != 3 || err != nil {
			t.Error(n, err)
		}
	}
	if !b.Overflowed() || count != 1 || string(b.Bytes()) != "abcde" {
		t.Errorf("%q, Full was called %d times", b.String(), count)
	}
	nobody := &Buffer{MaxBytes: 1}
	if _, err := nobody.Write([]byte("ab")); err != nil || !nobody.Overflowed() || nobody.String() != "a" {
		t.Error(nobody, err)
	}
}
