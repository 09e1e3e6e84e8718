package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestRootExpiryAnnotationSurvivesRoundTrip(t *testing.T) {
	note := RootNote{Epoch: 2, Version: 7, Expires: noon, Fleet: "north"}
	if got, err := ParseRootNote(note.String()); got != note || err != nil {
		t.Errorf("parse %s: got %+v, %v, want %+v", note, got, err, note)
	}
	for name, text := range map[string]string{
		"empty note": "", "note that is not JSON": "version 7",
		"note without a version":          `{"expires":"2026-05-04T12:00:00Z"}`,
		"note without an expiry":          `{"version":7}`,
		"note with an invalid expiry":     `{"version":7,"expires":"tomorrow"}`,
		"note with a negative version":    `{"version":-7,"expires":"2026-05-04T12:00:00Z"}`,
		"note with an invalid fleet name": `{"version":7,"expires":"2026-05-04T12:00:00Z","fleet":"\u001b[2J"}`,
		"note that is too large": `{"version":7,"expires":"2026-05-04T12:00:00Z"}` +
			strings.Repeat(" ", 1<<20),
	} {
		if got, err := ParseRootNote(text); err == nil || got != (RootNote{}) {
			t.Errorf("%s: got %+v, %v, want an error", name, got, err)
		}
	}
}

func TestNewestRootReturnsExpiryOfLatestVersion(t *testing.T) {
	at := func(days int) time.Time { return noon.AddDate(0, 0, days) }
	for name, c := range map[string]struct {
		notes []RootNote
		want  time.Time
	}{
		"namespace without notes":                   {nil, time.Time{}},
		"namespace with one note":                   {[]RootNote{{1, 1, at(5), ""}}, at(5)},
		"notes with two versions":                   {[]RootNote{{1, 2, at(5), ""}, {1, 1, at(1), ""}}, at(5)},
		"notes with two epochs":                     {[]RootNote{{1, 9, at(1), ""}, {2, 1, at(5), ""}}, at(5)},
		"equal versions, first one expires later":   {[]RootNote{{1, 1, at(5), ""}, {1, 1, at(1), ""}}, at(1)},
		"equal versions, first one expires earlier": {[]RootNote{{1, 1, at(1), ""}, {1, 1, at(5), ""}}, at(1)},
		"notes of two fleets": {
			[]RootNote{{1, 9, at(5), "north"}, {1, 1, at(1), "south"}}, at(1),
		},
		"notes of two fleets, one with two versions": {
			[]RootNote{{1, 9, at(5), "north"}, {1, 8, at(1), "north"}, {1, 1, at(9), "south"}}, at(5),
		},
		"notes with and without a fleet name": {[]RootNote{{1, 9, at(5), "north"}, {1, 8, at(1), ""}}, at(5)},
	} {
		if got := NewestRoot(c.notes); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
