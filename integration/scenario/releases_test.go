package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// supported is an earlier release that must be compatible with this version.
type supported struct {
	version, commit string
}

// maxReleases is the number of earlier releases that must be compatible with this version: N-1 and N-2.
const maxReleases = 2

var (
	releaseVersion = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	releaseCommit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// readReleases reads lines with a version and a commit. It ignores empty lines and comments.
func readReleases(r io.Reader) ([]supported, error) {
	var all []supported
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) != 2:
			return nil, fmt.Errorf("line %d: must be VERSION COMMIT", n)
		case !releaseVersion.MatchString(fields[0]):
			return nil, fmt.Errorf("line %d: version %q: must be MAJOR.MINOR.PATCH", n, fields[0])
		case !releaseCommit.MatchString(fields[1]):
			return nil, fmt.Errorf("line %d: commit %q: must have 40 hex digits", n, fields[1])
		case len(all) == maxReleases:
			return nil, fmt.Errorf("line %d: more than %d releases: remove the oldest", n, maxReleases)
		}
		all = append(all, supported{fields[0], fields[1]})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the file does not list releases")
	}
	return all, nil
}

// releases returns the earlier releases, oldest first.
func releases(t *testing.T) []supported {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "releases.txt"))
	must(t, err)
	defer func() { _ = file.Close() }()
	all, err := readReleases(file)
	if err != nil {
		t.Fatalf("%s: %v", file.Name(), err)
	}
	return all
}

// programsAt builds a commit's programs.
func programsAt(t *testing.T, commit string) fleet.Binaries {
	t.Helper()
	programs, err := fleet.BuildAt(t.Context(), commit)
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skip(err)
	}
	must(t, err)
	return programs
}

func TestReadReleasesRefusesInvalidFiles(t *testing.T) {
	commit := strings.Repeat("a1", 20)
	for name, c := range map[string]struct{ text, want string }{
		"valid release":              {"# a comment\n\n0.1.0 " + commit + "\n", ""},
		"file without releases":      {"# a comment\n", "does not list releases"},
		"release without a commit":   {"0.1.0\n", "line 1: must be VERSION COMMIT"},
		"abbreviated commit":         {"0.1.0 a1b2c3d4\n", `line 1: commit "a1b2c3d4": must have 40 hex digits`},
		"branch instead of a commit": {"0.1.0 main\n", `line 1: commit "main"`},
		"version with prefix v":      {"\nv0.1.0 " + commit + "\n", `line 2: version "v0.1.0"`},
		"too many releases":          {strings.Repeat("0.1.0 "+commit+"\n", 3), "line 3: more than 2 releases"},
	} {
		all, err := readReleases(strings.NewReader(c.text))
		if c.want == "" {
			if err != nil || len(all) != 1 || all[0] != (supported{"0.1.0", commit}) {
				t.Errorf("%s: unexpected releases %v or error %v", name, all, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
	releases(t)
}
