package layout

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// trimpathPrefixes lists prefixes of the lines that are allowed to contain -trimpath, in the format of `git grep`. Go
// compiles all packages again if this flag changes, so the Makefile sets it once for all targets. Only release builds
// ignore the environment and set it again.
var trimpathPrefixes = []string{
	".goreleaser.yaml:", "hack/release/artifacts_test.go:",
	"CONTRIBUTING.md:",
	"Makefile:# With -trimpath",
	"Makefile:export GOFLAGS :=",
	`hack/release/programs.go:		args := []string{"build", "-trimpath", "-ldflags"`,
}

func TestMakeTargetsCompileWithTrimpath(t *testing.T) {
	command := exec.Command("git", "grep", "-I", "-e", "-trimpath", "--", ":!integration/layout")
	command.Dir = root(t)
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(output)) {
		allowed := slices.IndexFunc(trimpathPrefixes, func(allowed string) bool { return strings.HasPrefix(line, allowed) })
		if allowed < 0 {
			t.Errorf("only the Makefile's GOFLAGS can set -trimpath, because Go compiles all packages again for it: %s", line)
			continue
		}
		found[trimpathPrefixes[allowed]] = true
	}
	for _, beginning := range trimpathPrefixes {
		if !found[beginning] {
			t.Errorf("no line begins with %q", beginning)
		}
	}
}

// The test suite compiles only for Linux, but releases also contain programs for macOS.
func TestPlatformFilesDefineTheSameFunctions(t *testing.T) {
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

// make generate runs the tests that compare a reference page with the code, and skips a test whose name does not match.
func TestMakeGenerateRunsAllReferenceTests(t *testing.T) {
	pattern := regexp.MustCompile(`(?m)^\tgo test .*-run '([^']+)' (.+) -args -update$`).FindStringSubmatch(
		readFile(t, "Makefile"))
	if pattern == nil {
		t.Fatal("the Makefile does not run tests with -update")
	}
	selected := regexp.MustCompile(pattern[1])
	test := regexp.MustCompile(`(?m)^func (Test\w*Reference\w*IsCurrent)\(`)
	found := 0
	for _, path := range tracked(t, "**/*_test.go") {
		for _, name := range test.FindAllStringSubmatch(readFile(t, path), -1) {
			found++
			folder := "./" + path[:strings.LastIndex(path, "/")]
			if !selected.MatchString(name[1]) || !slices.Contains(strings.Fields(pattern[2]), folder) {
				t.Errorf("make generate does not run %s in %s", name[1], folder)
			}
		}
	}
	if found == 0 {
		t.Error("no test compares a reference page")
	}
}
