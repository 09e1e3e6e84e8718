package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// trimmed lists the beginnings of the only lines that can contain -trimpath. They build images and releases, which must
// not contain paths of this machine. Go compiles every package separately for such a build, so a test or tool with this
// flag would compile about a thousand packages twice.
var trimmed = []string{
	"Makefile:# Only images and releases use -trimpath",
	"Makefile:\tGOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -trimpath -o bin/linux-$(ARCH)/",
	`hack/release/programs.go:		args := []string{"build", "-trimpath", "-ldflags"`,
}

func TestOnlyImagesAndReleasesAreBuiltWithTrimpath(t *testing.T) {
	command := exec.Command("git", "grep", "-I", "-e", "-trimpath", "--", ":!integration/layout")
	command.Dir = root(t)
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		if !slices.ContainsFunc(trimmed, func(allowed string) bool { return strings.HasPrefix(line, allowed) }) {
			t.Errorf("only builds of images and releases can use -trimpath, which compiles everything again: %s", line)
		}
	}
}
