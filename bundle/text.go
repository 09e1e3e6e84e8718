package bundle

import (
	"strconv"
	"strings"
)

// MaxMessageBytes limits one message in a report.
const MaxMessageBytes = 512

// MaxNoteBytes is the API's size limit for an Event's note.
//
// Source: Kubernetes API, events.k8s.io/v1, Event.note, "The maximum length is 1kB".
const MaxNoteBytes = 1024

// Bounded makes text printable and truncates it to at most the given number of bytes. It never splits a character.
func Bounded(text string, most int) string {
	if text = Printable(text[:min(len(text), 2*most)]); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Quote truncates an external text, quotes it and escapes unprintable characters.
func Quote(text string, most int) string {
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}
