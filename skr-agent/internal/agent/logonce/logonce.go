// Package logonce records the last log line about each subject. Callers use it to log a persistent state only once.
package logonce

import (
	"maps"
	"slices"
)

// Memo contains the last log text about each subject. The zero value is empty. It is not safe for concurrent use.
type Memo struct{ lastTexts map[string]string }

// Update sets the text of a subject and reports whether the text changed. An empty text removes the subject.
func (m *Memo) Update(subject, text string) bool {
	if m.lastTexts[subject] == text {
		return false
	}
	if m.lastTexts == nil {
		m.lastTexts = map[string]string{}
	}
	if m.lastTexts[subject] = text; text == "" {
		delete(m.lastTexts, subject)
	}
	return true
}

// Replace replaces all texts and returns the sorted subjects whose text is new or different.
func (m *Memo) Replace(all map[string]string) []string {
	var news []string
	for _, subject := range slices.Sorted(maps.Keys(all)) {
		if m.lastTexts[subject] != all[subject] {
			news = append(news, subject)
		}
	}
	m.lastTexts = maps.Clone(all)
	return news
}
