package cli

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionShowsSourceCommit(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"build from a repository": {&debug.BuildInfo{
			Settings: []debug.BuildSetting{
				setting("vcs.revision", "abc"), setting("vcs.time", "2026-05-04T12:00:00Z"),
				setting("vcs.modified", "false"),
			},
		},
			"version   v1\ncommit    abc\ndate      2026-05-04T12:00:00Z\nGo        go"},
		"build with uncommitted changes": {
			&debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.revision", "abc"),
				setting("vcs.modified", "true")}}, "commit    abc, with uncommitted changes\ndate      unknown\n",
		},
		"build from an archive": {&debug.BuildInfo{}, "commit    unknown\n"},
		"no build information":  {nil, "version   v1\ncommit    unknown\n"},
	} {
		var out bytes.Buffer
		if newBuildInfo("v1", c.info).draw(&out); !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: got %s, want %q", name, out.String(), c.want)
		}
	}
	if code, out := execute(program(nil), nil, "version", "-o", "json"); code != ExitDone ||
		!strings.Contains(out, `"version": "v0.0.0-test"`) || !strings.Contains(out, `"goVersion": "go`) {
		t.Errorf("got exit code %d: %s, want the version in JSON", code, out)
	}
}

func TestProgramFromGoInstallShowsItsVersion(t *testing.T) {
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v0.9.1", Sum: "h1:abc"}}
	for name, c := range map[string]struct {
		stamped string
		info    *debug.BuildInfo
		want    string
	}{
		"go install":           {"dev", installed, "v0.9.1"},
		"release":              {"0.9.2", installed, "0.9.2"},
		"checkout":             {"dev", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026+dirty"}}, "dev"},
		"no build information": {"dev", nil, "dev"},
	} {
		if got := programVersion(c.stamped, c.info); got != c.want {
			t.Errorf("%s: got version %s, want %s", name, got, c.want)
		}
	}
}
