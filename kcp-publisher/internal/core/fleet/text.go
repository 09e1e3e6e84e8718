package fleet

import (
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	maxTextBytes = 2048
	maxLineBytes = 256
)

// cleanText shortens a message and removes unprintable characters. Every displayed message must use it, because
// runtimes can report arbitrary text.
func cleanText(message string) string {
	if len(message) <= maxTextBytes && isPlain(message) {
		return message
	}
	return bundle.Bounded(message, maxTextBytes)
}

// cleanLine shortens a name or version, and removes line breaks and unprintable characters.
func cleanLine(name string) string {
	if len(name) <= maxLineBytes && isPlain(name) {
		return name
	}
	if len(name) > maxLineBytes {
		name = bundle.Bounded(name, maxLineBytes)
	}
	return bundle.PrintableLine(name)
}

// isPlain reports whether a string has only printable ASCII characters. Most strings do, and do not need the slower
// conversion.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// shellWord returns a name for use in a shell command. If the name contains characters that a shell could interpret, it
// returns the placeholder.
func shellWord(name, placeholder string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/", r)
	}
	if name == "" || len(name) > maxLineBytes || name[0] == '-' ||
		strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return placeholder
	}
	return name
}
