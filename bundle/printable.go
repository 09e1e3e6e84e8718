package bundle

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns external text in a form that is safe to print. It escapes terminal control sequences, characters
// that change the text direction, and invalid bytes. It keeps line ends and tabs.
func Printable(text string) string {
	return printable(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// PrintableLine works like Printable and also replaces line ends and tabs with spaces, for example for a table cell.
func PrintableLine(text string) string {
	return printable(lineEnds.Replace(text), func(rune) bool { return false })
}

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")

func printable(text string, also func(rune) bool) string {
	shown := func(r rune) bool { return unicode.IsGraphic(r) || also(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && !shown(r):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case shown(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		i += size
	}
	return out.String()
}
