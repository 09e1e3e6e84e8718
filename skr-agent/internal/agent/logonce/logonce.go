// Package logonce remembers what was said, so that a state which lasts is logged once and not in every round.
package logonce

import (
	"maps"
	"slices"
)

// Memo remembers what was said last, by subject. The zero value has said nothing. It is used by one goroutine.
type Memo struct{ said map[string]string }

// Changed remembers what is to be said of a subject, empty for nothing, and reports whether that differs from what was
// said last.
func (m *Memo) Changed(subject, text string) bool {
	if m.said[subject] == text {
		return false
	}
	if m.said == nil {
		m.said = map[string]string{}
	}
	if m.said[subject] = text; text == "" {
		delete(m.said, subject)
	}
	return true
}

// Replace remembers what is to be said of all subjects, in place of whatever was said before, and returns the subjects
// of which there is something new to say, sorted.
func (m *Memo) Replace(all map[string]string) []string {
	var news []string
	for _, subject := range slices.Sorted(maps.Keys(all)) {
		if m.said[subject] != all[subject] {
			news = append(news, subject)
		}
	}
	m.said = maps.Clone(all)
	return news
}
