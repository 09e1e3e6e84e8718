package ui

import (
	"net/http"
	"strings"
	"testing"
)

func TestRuntimePageShowsItsLastBundles(t *testing.T) {
	s := serve(t, sampleFleet(100, false), nil)
	status, body, _ := s.get(t, "/runtimes/r-00007")
	if status != http.StatusOK {
		t.Fatalf("got status %d\n%s", status, body)
	}
	at := 0
	for _, want := range []string{
		"waits for the runtime", "keda 1.7.0 → 1.8.0",
		"In force, published", "in force, Ready",
		"keda 1.6.0 → 1.7.0, mailer removed, serverless 2.1.0, and 2 other modules",
		"RSTxaS7Vbo7ycU1bUnnEaFo2Yd9P7zLYuOeH3SrKXVY", "version 3", sampleCommit,
		"refused: Downgrade", "Not verified", "not found in registry.example.org", "applied, Error",
		"&lt;script&gt;",
	} {
		next := strings.Index(body[at:], want)
		if next < 0 {
			t.Fatalf("the page does not contain %q in the expected order:\n%s", want,
				body[strings.Index(body, "Bundles"):])
		}
		at += next
	}
	if strings.Contains(body, "<script>document") || strings.Contains(body, "\u202e") {
		t.Error("a hostile text is not escaped")
	}
	for runtime, want := range map[string]string{
		"r-00007": `<li class="busy"><h3>`, // waiting
		"r-00001": `<li class="bad"><h3>`,  // applied, with a module that crashes
		"r-00099": `<li class="good"><h3>`,
	} {
		_, body, _ := s.get(t, "/runtimes/"+runtime)
		if _, timeline, _ := strings.Cut(body, `<ol class="timeline">`); !strings.HasPrefix(strings.TrimSpace(timeline),
			want) {
			t.Errorf("runtime %s: the timeline does not begin with %s:\n%.300s", runtime, want, timeline)
		}
	}
}
