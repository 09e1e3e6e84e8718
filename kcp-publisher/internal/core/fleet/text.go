package fleet

import (
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxTextBytes limits a displayed message, maxLineBytes a displayed name.
	maxTextBytes = 2048
	maxLineBytes = 256
)

// text returns a message in a form that is safe to display, because a runtime can report any text. All messages pass
// through it.
func text(message string) string {
	if len(message) <= maxTextBytes && isPlain(message) {
		return message
	}
	return bundle.Bounded(message, maxTextBytes)
}

// line is text for names and versions.
func line(name string) string {
	if len(name) <= maxLineBytes && isPlain(name) {
		return name
	}
	if len(name) > maxLineBytes {
		name = bundle.Bounded(name, maxLineBytes)
	}
	return bundle.PrintableLine(name)
}

// isPlain reports whether a text is printable ASCII. Nearly all texts are, so this is the fast path for a whole fleet.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// word returns a name for a command line, or the placeholder if a shell could interpret the name.
func word(name, placeholder string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/", r)
	}
	if name == "" || len(name) > maxLineBytes || name[0] == '-' ||
		strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return placeholder
	}
	return name
}
