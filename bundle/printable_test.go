package bundle

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintableEscapesControlSequences(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"ordinary, Größe, 日本, 😀":          "ordinary, Größe, 日本, 😀",
		"\x1b]0;owned\a\x1b[2Jfine":       `\x1b]0;owned\x07\x1b[2Jfine`,
		"C1: \u009b2J \u0090 \u0085":      `C1: \u009b2J \u0090 \u0085`,
		"raw C1: \x9b2J":                  `raw C1: \x9b2J`,
		"user\u202egpj.exe \u2066x\u200f": `user\u202egpj.exe \u2066x\u200f`,
		"no text: \xff\xc3\x28":           `no text: \xff\xc3(`,
		"over\rwritten \x7f \x00 \b":      `over\x0dwritten \x7f \x00 \x08`,
		"two\nlines\tand a tab":           "two\nlines\tand a tab",
		"separators \u2028 \u2029":        `separators \u2028 \u2029`,
		"a tag \U000e0041":                `a tag \U000e0041`,
		"the replacement \ufffd itself":   "the replacement \ufffd itself",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := PrintableLine("a\r\nb\nc\td\x1b"); got != `a b c d\x1b` {
		t.Errorf("PrintableLine: got %q, want one line", got)
	}
}

func TestBoundedTextIsPrintable(t *testing.T) {
	for _, text := range []string{strings.Repeat("\x1b", 5000), strings.Repeat("ü", 5000), "\u202e",
		strings.Repeat("a", 5000)} {
		got := Bounded(text, 100)
		if len(got) > 100 || !utf8.ValidString(got) || got != Printable(got) {
			t.Errorf("%.10q: got %q, want at most 100 printable bytes", text, got)
		}
	}
}
