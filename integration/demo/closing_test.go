package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// With --help, a command line is parsed and has no effect.
func TestTheDemoEndsWithCommandsThatThereAre(t *testing.T) {
	binaries, err := fleet.Build()
	if err != nil {
		t.Fatal(err)
	}
	text := closing(binaries.Publisher, "http://127.0.0.1:8080/")
	if !strings.Contains(text, "\n  http://127.0.0.1:8080/\n") {
		t.Errorf("the address of the page is not on a line of its own:\n%s", text)
	}
	ours, kubectls := 0, 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == binaries.Publisher:
			ours++
			if output, err := exec.CommandContext(t.Context(), words[0], append(words[1:], "--help")...).CombinedOutput(); err != nil || !strings.Contains(string(output), "Usage:") {
				t.Errorf("%s: %v\n%s", line, err, output)
			}
		case words[0] == "kubectl":
			kubectls++
		}
	}
	if ours != 2 || kubectls != 3 {
		t.Errorf("%d commands of the publisher and %d of kubectl:\n%s", ours, kubectls, text)
	}
}
