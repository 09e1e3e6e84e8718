package layout

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// trimmed lists the beginnings of lines that can contain -trimpath, which only images and releases need. Go compiles
// all packages again for this flag.
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

// The suite compiles only for Linux, but releases contain programs for macOS.
func TestOtherSystemsHaveTheFunctionsOfLinux(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (\w+)\(`)
	for _, path := range tracked(t, "**/*_other.go") {
		linux := readFile(t, strings.Replace(path, "_other.go", "_linux.go", 1))
		for _, f := range declared.FindAllStringSubmatch(readFile(t, path), -1) {
			if !strings.Contains(linux, f[0]) {
				t.Errorf("%s declares %s, which does not exist on Linux", path, f[1])
			}
		}
	}
}
