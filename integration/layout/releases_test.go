package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tutorial builds a release from the checkout. A version that is already released has other content.
func TestTutorialBuildsNoReleasedVersion(t *testing.T) {
	released, err := os.ReadFile(filepath.Join("..", "scenario", "testdata", "releases.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tutorial, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorials", "first-clusters.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(released)) {
		version, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(line, "#") || strings.TrimSpace(version) == "" {
			continue
		}
		if strings.Contains(string(tutorial), "VERSION="+version+" ") {
			t.Errorf("the tutorial builds version %s, which is a release: use the next version", version)
		}
	}
}
