package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildInfo describes a program's build.
type buildInfo struct {
	Version string `json:"version"`
	// Commit is the hash of the source commit and Date its time. They are empty if the program was not built in a Git
	// repository. Modified is true if the sources had uncommitted changes.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
}

// notReleased is the version of a program whose build did not set main.version.
const notReleased = "dev"

// programVersion returns the version that the build set (stamped), or else the Go module version, or else "dev".
func programVersion(stamped string, info *debug.BuildInfo) string {
	if stamped == notReleased && info != nil && info.Main.Sum != "" {
		return info.Main.Version
	}
	return stamped
}

func newVersion(version string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "version", Short: "print version and build information", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			b := newBuildInfo(version, info)
			return Print(cmd.OutOrStdout(), format, b, b.draw)
		},
	}
	OutputFlag(cmd.Flags(), &format)
	return cmd
}

// newBuildInfo returns this program's build. info is nil if the program does not contain build
// information.
func newBuildInfo(version string, info *debug.BuildInfo) buildInfo {
	b := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

func (b buildInfo) draw(out io.Writer) {
	commit := cmp.Or(b.Commit, "unknown")
	if b.Modified {
		commit += ", with uncommitted changes"
	}
	fmt.Fprintf(out, "version   %s\ncommit    %s\ndate      %s\nGo        %s\nplatform  %s\n", b.Version, commit,
		cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
}
