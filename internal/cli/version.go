package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known of how a program was built.
type build struct {
	Version string `json:"version"`
	// Commit and Date are those of the sources, empty where they came from no repository. Modified says that the sources differed from it.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
}

// notReleased is the version of a program that nobody gave one.
const notReleased = "dev"

// versionOf returns the version that a program was given when it was built, else that of the module that `go install` took it from. A module of
// a checkout has no sum, and is no release.
func versionOf(given string, info *debug.BuildInfo) string {
	if given == notReleased && info != nil && info.Main.Sum != "" {
		return info.Main.Version
	}
	return given
}

func newVersion(version string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "version", Short: "says which version this is, and what it was built from", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			b := buildOf(version, info)
			return Print(cmd.OutOrStdout(), format, b, b.draw)
		},
	}
	OutputFlag(cmd.Flags(), &format)
	return cmd
}

// buildOf returns what is known of a build; info is nil for a program without.
func buildOf(version string, info *debug.BuildInfo) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) draw(out io.Writer) {
	commit := cmp.Or(b.Commit, "unknown")
	if b.Modified {
		commit += ", with changes"
	}
	fmt.Fprintf(out, "version   %s\ncommit    %s\ndate      %s\nGo        %s\nplatform  %s\n", b.Version, commit, cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
}
