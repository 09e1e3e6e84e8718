package fleet

import (
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxTextBytes bounds what is shown of a message, maxLineBytes of a name.
	maxTextBytes = 2048
	maxLineBytes = 256
)

// text returns a message as it may be shown: a runtime may write anything. It is the only place that messages go
// through.
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

// isPlain reports whether a text is printable ASCII, as nearly all are: they are looked at for the whole fleet.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// word returns a name as a command line may have it, and a placeholder for one that a shell could read otherwise.
func word(name, placeholder string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/", r)
	}
	if name == "" || len(name) > maxLineBytes || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return placeholder
	}
	return name
}
