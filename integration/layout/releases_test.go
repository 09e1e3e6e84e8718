package layout

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// releasedVersions returns the versions of the supported releases.
func releasedVersions(t *testing.T) (versions []string) {
	t.Helper()
	for line := range strings.Lines(readFile(t, "integration", "scenario", "testdata", "releases.txt")) {
		version, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(version) != "" {
			versions = append(versions, version)
		}
	}
	return versions
}

// nextVersion returns the version that the tutorial builds from the checkout.
func nextVersion(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^VERSION=(\S+) `).FindStringSubmatch(
		readFile(t, "docs", "tutorials", "first-clusters.md"))
	if found == nil {
		t.Fatal("the tutorial sets no VERSION")
	}
	return found[1]
}

// The tutorial builds a release from the checkout. A version that is already released has other content.
func TestTutorialBuildsNoReleasedVersion(t *testing.T) {
	released := releasedVersions(t)
	if version := nextVersion(t); len(released) == 0 || slices.Contains(released, version) {
		t.Errorf("the tutorial builds version %s, and the releases are %q: use the next version", version, released)
	}
}

// A release replaces version and appVersion. In a checkout, appVersion is the default image tag, and the notes after an
// installation link to the CRDs of version.
func TestChartsHaveTheNextReleaseVersion(t *testing.T) {
	want := nextVersion(t)
	for _, name := range []string{"kcp-publisher", "skr-agent"} {
		found := regexp.MustCompile(`(?m)^(?:version|appVersion): (\S+)$`).FindAllStringSubmatch(
			readFile(t, "charts", name, "Chart.yaml"), -1)
		if len(found) != 2 || found[0][1] != want || found[1][1] != want {
			t.Errorf("chart %s: got version and appVersion %q, want %s", name, found, want)
		}
	}
}
