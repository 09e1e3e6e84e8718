// Package logonce records the last log line of each subject, so that a lasting state is logged once and not in every
// round.
package logonce

import (
	"maps"
	"slices"
)

// Memo records the last text by subject. The zero value is empty. One goroutine uses it.
type Memo struct{ last map[string]string }

// Changed records the text of a subject, "" for none, and reports whether it differs from the last one.
func (m *Memo) Changed(subject, text string) bool {
	if m.last[subject] == text {
		return false
	}
	if m.last == nil {
		m.last = map[string]string{}
	}
	if m.last[subject] = text; text == "" {
		delete(m.last, subject)
	}
	return true
}

// Replace replaces the texts of all subjects, and returns the sorted subjects whose text is new or different.
func (m *Memo) Replace(all map[string]string) []string {
	var news []string
	for _, subject := range slices.Sorted(maps.Keys(all)) {
		if m.last[subject] != all[subject] {
			news = append(news, subject)
		}
	}
	m.last = maps.Clone(all)
	return news
}
