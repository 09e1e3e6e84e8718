package layout

import (
	"slices"
	"testing"
)

// The workflow must install the release files on kind clusters before it pushes and publishes the release.
func TestReleaseWorkflowInstallsTheReleaseFirst(t *testing.T) {
	jobs := workflows(t)[".github/workflows/release.yaml"].Jobs
	for job, want := range map[string]string{"publish": "push", "push": "install", "install": "build"} {
		if got := jobs[job].Needs; got != want {
			t.Errorf("release.yaml: job %s needs job %q, want %s", job, got, want)
		}
	}
	var commands []string
	for _, step := range jobs["install"].Steps {
		if step.Run != "" {
			commands = append(commands, step.Run)
		}
	}
	if want := []string{"make test-first-clusters RELEASE=dist"}; !slices.Equal(commands, want) {
		t.Errorf("release.yaml: job install runs %q, want %q", commands, want)
	}
}
