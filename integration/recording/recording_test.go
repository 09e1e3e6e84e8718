package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

var sample = Recording{
	Title: "a & b", Command: "make <demo>", Steps: []string{
		"first",
		"second: <it> \"works\" & ends",
	}, Rest: []string{"", "┌──┐", "│ a│"},
}

// texts returns all text elements' content.
func texts(t *testing.T, svg []byte) (found []string) {
	t.Helper()
	inside, current := false, ""
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "script" || e.Name.Local == "image" || e.Name.Local == "a" || e.Name.Local == "use" {
				t.Errorf("the picture contains an element %s", e.Name.Local)
			}
			inside = inside || e.Name.Local == "text"
		case xml.EndElement:
			if e.Name.Local == "text" {
				found, inside, current = append(found, current), false, ""
			}
		case xml.CharData:
			if inside {
				current += string(e)
			}
		}
	}
}

func TestPictureShowsCommandStepsAndResult(t *testing.T) {
	svg := sample.SVG()
	want := []string{
		"$ make <demo>", "… 1. first", "✓ 1. first",
		`… 2. second: <it> "works" & ends`, `✓ 2. second: <it> "works" & ends`, "", "┌──┐", "│ a│",
	}
	if got := texts(t, svg); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, part := range []string{
		"prefers-color-scheme:dark",
		"prefers-reduced-motion",
		"animation:z 20s infinite",
		"<title>a &amp; b</title>",
	} {
		if !bytes.Contains(svg, []byte(part)) {
			t.Errorf("no %s in\n%s", part, svg)
		}
	}
	if !bytes.Equal(svg, sample.SVG()) {
		t.Error("equal output gives different pictures")
	}
}

func TestPictureIsAsWideAsItsLongestLine(t *testing.T) {
	long := Recording{Command: "make demo", Steps: []string{strings.Repeat("x", 200)}}
	if !bytes.Contains(long.SVG(), []byte(`width="1653"`)) {
		t.Errorf("the picture is not as wide as its longest line:\n%.200s", long.SVG())
	}
}
