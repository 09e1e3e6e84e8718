package cli

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const (
	checkout   = "../.."
	configPage = "reference/configuration.md" // relative to docs
)

func configurationPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(checkout, "docs", configPage))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func section(t *testing.T, page, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", configPage, title)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

func TestConfigurationPageListsAllAliases(t *testing.T) {
	named := map[string]pflag.NormalizedName{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| `([a-z-]+)` \\|$").
		FindAllStringSubmatch(section(t, configurationPage(t), "The file"), -1) {
		named[row[1]] = pflag.NormalizedName(row[2])
	}
	if !maps.Equal(named, fluxNames) {
		t.Errorf("the page lists the aliases\n%v, want the aliases of the programs\n%v", named, fluxNames)
	}
}

func TestConfigurationPageListsAllVariables(t *testing.T) {
	names := map[string]bool{}
	// The page has one row for all variables of the cloud providers' SDKs, so the test skips the folders that use them.
	unlisted := []string{"clitest", "cloudauth", "cloudlogin"}
	read := regexp.MustCompile(`\b(?:Getenv|LookupEnv|env)\(([^)]*)\)`)
	constant := regexp.MustCompile(`const podName, podUID = ("[A-Z_]+"), ("[A-Z_]+")`)
	for _, folder := range []string{"apis", "bundle", "internal", "kcp-publisher", "skr-agent"} {
		err := filepath.WalkDir(filepath.Join(checkout, folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				slices.ContainsFunc(unlisted, func(part string) bool { return strings.Contains(path, part) }) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			values := constant.FindStringSubmatch(string(text))
			for _, found := range read.FindAllStringSubmatch(string(text), -1) {
				name := found[1]
				if values != nil {
					name = strings.NewReplacer("podName", values[1], "podUID", values[2]).Replace(name)
				}
				if strings.HasPrefix(name, `"`) {
					names[strings.Trim(name, `"`)] = true
				} else if name != "string" { // exclude parameters of type func(string) string
					t.Errorf("%s reads the variable %s, but this test cannot resolve its name", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(names) < 4 {
		t.Errorf("found the variables %v, want at least 4", names)
	}
	table := section(t, configurationPage(t), "Environment")
	for name := range names {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("the page does not list the variable %s", name)
		}
	}
}
