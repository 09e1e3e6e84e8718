package main

import (
	"runtime/debug"
	"testing"
)

func TestProgramsContainTheReleaseCommit(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []debug.BuildSetting
		ok       bool
	}{
		{"the commit of the release", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}, true},
		{"another commit", []debug.BuildSetting{{Key: "vcs.revision", Value: "abd"}}, false},
		{"no commit, as in a linked worktree", []debug.BuildSetting{{Key: "GOOS", Value: "linux"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkCommit(c.settings, "abc"); (err == nil) != c.ok {
				t.Errorf("got error %v", err)
			}
		})
	}
}
