// Package logonce records the last log line of each subject. Callers use it to log a persistent state only once.
package logonce

import (
	"maps"
	"slices"
)

// Memo contains the last log text of each subject. The zero value is empty. It is not safe for concurrent use.
type Memo struct{ last map[string]string }

// Changed records the text of a subject and reports whether the text changed. An empty text removes the subject.
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

// Replace replaces all texts and returns the sorted subjects whose text is new or different.
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
