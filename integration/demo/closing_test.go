package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// With --help, the program parses a command line but does not execute it.
func TestCommandsAtTheEndOfTheDemoAreValid(t *testing.T) {
	binaries, err := fleet.Build()
	if err != nil {
		t.Fatal(err)
	}
	text := closingText(binaries.Publisher, "http://127.0.0.1:8080/")
	if !strings.Contains(text, "\n  http://127.0.0.1:8080/\n") {
		t.Errorf("the address of the page is not on a separate line:\n%s", text)
	}
	ours, kubectls := 0, 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == binaries.Publisher:
			ours++
			if output, err := exec.CommandContext(
				t.Context(),
				words[0],
				append(words[1:], "--help")...,
			).CombinedOutput(); err != nil || !strings.Contains(string(output), "Usage:") {
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

// The README shows the recording of a demo, which make recording updates.
func TestRecordingShowsDemoSteps(t *testing.T) {
	shown, err := os.ReadFile(filepath.Join("..", "..", "docs", "images", "demo.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) > 40<<10 {
		t.Errorf("the recording is %d bytes, want at most 40 KiB", len(shown))
	}
	if err := xml.Unmarshal(shown, &struct{}{}); err != nil {
		t.Error(err)
	}
	// Everything except the result is identical in each run.
	steps, _, _ := strings.Cut(string(successfulRecording((&demoFleet{}).steps(), "").SVG()), "<text class=\"z\"")
	_, want, _ := strings.Cut(steps, "<text ")
	if !strings.Contains(string(shown), want) {
		t.Error("the recording does not show the current steps: run make recording")
	}
	for _, want := range []string{"berlin", "tokyo", "1.8.0", "Ready"} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("the recording does not show %s", want)
		}
	}
}
