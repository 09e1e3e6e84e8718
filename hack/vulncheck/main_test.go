package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

func TestRunDeterminesMessageAndExitCode(t *testing.T) {
	const away = "govulncheck: fetching vulnerabilities: Get \"https://vuln.go.dev/index/modules.json.gz\": no such " +
		"host"
	for name, c := range map[string]struct {
		code     int
		output   string
		database string
		want     int
		message  string
	}{
		"no vulnerability is found":             {0, "No vulnerabilities found.", "", 0, "no known vulnerability"},
		"vulnerability is found":                {3, "Vulnerability #1", "", 3, "upgrade"},
		"vulnerability is found after an error": {3, away, "", 3, "upgrade"},
		"public database is unreachable":        {1, away, "", 0, "SKIPPED: "},
		"database copy is missing":              {1, away, "file:///nowhere", 1, "failed"},
		"code does not compile":                 {1, "govulncheck: loading packages:", "", 1, "failed"},
		"govulncheck gets an unknown flag":      {2, "flag provided but not defined", "", 2, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			output, code := exitStatus(c.code, c.output, c.database, false)
			if code != c.want || !strings.Contains(output, c.message) {
				t.Errorf("got exit code %d with %q, want %d with %q", code, output, c.want, c.message)
			}
		})
	}
	if output, code := exitStatus(1, away, "", true); code != 1 || !strings.Contains(output, "NOT CHECKED") {
		t.Errorf("unreachable database on GitHub: got exit code %d with %q, want 1 with NOT CHECKED", code, output)
	}
}

func TestVulncheckUsesACopyOfTheDatabase(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for name, c := range map[string]struct {
		module, path, symbol string
		want                 int
	}{
		"vulnerable symbol is called":     {"go.yaml.in/yaml/v3", "go.yaml.in/yaml/v3", "NewDecoder", codeFound},
		"vulnerable symbol is not called": {"go.yaml.in/yaml/v3", "go.yaml.in/yaml/v3", "NewEncoder", 0},
		"vulnerable module is not linked": {"example.com/elsewhere", "example.com/elsewhere", "New", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == 0 {
				suite.Long(t) // each govulncheck run takes ten CPU seconds
			}
			dir := t.TempDir()
			entry := `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","summary":"made up",` +
				`"details":"made up","affected":[{"package":{"name":"` + c.module +
				`","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],` +
				`"ecosystem_specific":{"imports":[{"path":"` + c.path + `","symbols":["` + c.symbol +
				`"]}]}}],"database_specific":{"url":"https://pkg.go.dev/vuln/GO-2026-0001"}}`
			if err := os.WriteFile(filepath.Join(dir, "GO-2026-0001.json"), []byte(entry), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if code := check("file://"+dir, []string{"./bundle/strict"}, &out); code != c.want {
				t.Errorf("got exit code %d, want %d; output:\n%s", code, c.want, &out)
			}
		})
	}
	t.Run("database copy is missing", func(t *testing.T) {
		var out bytes.Buffer
		if code := check("file://"+filepath.Join(t.TempDir(), "none"), []string{"./bundle/strict"}, &out); code == 0 {
			t.Errorf("got exit code 0, want a failure; output:\n%s", &out)
		}
	})
}
