package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestRootNoteSurvivesEncoding(t *testing.T) {
	note := RootNote{Epoch: 2, Version: 7, Expires: noon, Fleet: "north"}
	if got, err := ParseRootNote(note.String()); got != note || err != nil {
		t.Errorf("got %+v, %v, of %s", got, err, note)
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "version 7", "no version": `{"expires":"2026-05-04T12:00:00Z"}`,
		"no end":               `{"version":7}`,
		"another end":          `{"version":7,"expires":"tomorrow"}`,
		"a negative one":       `{"version":-7,"expires":"2026-05-04T12:00:00Z"}`,
		"a fleet that is none": `{"version":7,"expires":"2026-05-04T12:00:00Z","fleet":"\u001b[2J"}`,
		"a flood of words":     `{"version":7,"expires":"2026-05-04T12:00:00Z"}` + strings.Repeat(" ", 1<<20),
	} {
		if got, err := ParseRootNote(text); err == nil || got != (RootNote{}) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestNewestRootReturnsTheLatestVersion(t *testing.T) {
	at := func(days int) time.Time { return noon.AddDate(0, 0, days) }
	for name, c := range map[string]struct {
		notes []RootNote
		want  time.Time
	}{
		"no note":                     {nil, time.Time{}},
		"one":                         {[]RootNote{{1, 1, at(5), ""}}, at(5)},
		"an older version":            {[]RootNote{{1, 2, at(5), ""}, {1, 1, at(1), ""}}, at(5)},
		"an older epoch":              {[]RootNote{{1, 9, at(1), ""}, {2, 1, at(5), ""}}, at(5)},
		"one version with two ends":   {[]RootNote{{1, 1, at(5), ""}, {1, 1, at(1), ""}}, at(1)},
		"the other way round is same": {[]RootNote{{1, 1, at(1), ""}, {1, 1, at(5), ""}}, at(1)},
		"of two fleets the first end": {[]RootNote{{1, 9, at(5), "north"}, {1, 1, at(1), "south"}}, at(1)},
		"an older version of one fleet": {
			[]RootNote{{1, 9, at(5), "north"}, {1, 8, at(1), "north"}, {1, 1, at(9), "south"}}, at(5),
		},
		"a nameless one beside a fleet's": {[]RootNote{{1, 9, at(5), "north"}, {1, 8, at(1), ""}}, at(5)},
	} {
		if got := NewestRoot(c.notes); !got.Equal(c.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
