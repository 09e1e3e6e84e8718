package layout

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leastTests maps pages with test tables to the minimum number of tests that they must name.
var leastTests = map[string]int{
	"docs/kyma-compatibility.md": 100, "docs/reference/attacks.md": 300, "docs/security/guarantees.md": 25,
}

// A table row must not refer to a test that does not exist.
func TestTestsNamedOnPagesExist(t *testing.T) {
	tests := testSources(t)
	for _, page := range pages(t) {
		if page != "CHANGELOG.md" { // the changelog describes earlier versions
			checkNames(t, page, readFile(t, page), tests, leastTests[page])
		}
	}
}

func TestEveryKymaCompatibilityRowNamesItsTest(t *testing.T) {
	proven, rows := false, 0
	for line := range strings.Lines(readFile(t, "docs", "kyma-compatibility.md")) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			proven = false
		case strings.HasSuffix(line, "| test |"):
			proven = true
		case proven && !strings.HasPrefix(line, "|-"):
			rows++
			if !strings.Contains(line, "`Test") && !strings.Contains(line, "not applicable: ") {
				t.Errorf("docs/kyma-compatibility.md: row without a test: %s", line)
			}
		}
	}
	if rows < 100 {
		t.Errorf("docs/kyma-compatibility.md has %d rows with tests, want at least 100", rows)
	}
}

func testSources(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard",
		"*_test.go")
	list.Dir = root(t)
	files, err := list.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	var tests strings.Builder
	for file := range strings.Lines(string(files)) {
		data, err := os.ReadFile(filepath.Join(root(t), strings.TrimSpace(file)))
		if err != nil {
			continue // git lists deleted files too
		}
		tests.Write(data)
	}
	return tests.String()
}

func checkNames(t *testing.T, page, text, tests string, least int) {
	t.Helper()
	named := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)(?:: ([^`]+))?`").FindAllStringSubmatch(text, -1)
	if len(named) < least {
		t.Errorf("%s contains %d test names, want at least %d", page, len(named), least)
	}
	for _, n := range named {
		if !strings.Contains(tests, "func "+n[1]+"(t *testing.T)") {
			t.Errorf("%s: test %s does not exist", page, n[1])
		}
		if n[2] != "" && !strings.Contains(tests, `"`+n[2]+`"`) {
			t.Errorf("%s: test %s does not have the case %q", page, n[1], n[2])
		}
	}
}

// The comment at a suite.Long call names short tests for the same behavior.
func TestShortTestsNamedForLongTestsExist(t *testing.T) {
	sources := testSources(t)
	comments := regexp.MustCompile(`suite\.Long\(t\) // the short suite runs (.+)`).FindAllStringSubmatch(sources, -1)
	if len(comments) < 40 {
		t.Errorf("found %d comments about the tests that the short suite runs, want at least 40", len(comments))
	}
	for _, comment := range comments {
		for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(comment[1], -1) {
			_, body, found := strings.Cut(sources, "func "+name+"(t *testing.T) {\n")
			if !found || strings.HasPrefix(body, "\tsuite.Long(t)") {
				t.Errorf("%q: the short suite has no test %s", comment[0], name)
			}
		}
	}
}

func TestContributingNamesFoldersThatExist(t *testing.T) {
	folders := regexp.MustCompile(
		"`((?:apis|bundle|charts|hack|integration|internal|kcp-publisher|skr-agent)/[a-z/]*)`").
		FindAllStringSubmatch(readFile(t, "CONTRIBUTING.md"), -1)
	if len(folders) < 15 {
		t.Errorf("CONTRIBUTING.md contains %d folders, want at least 15", len(folders))
	}
	for _, f := range folders {
		if _, err := os.Stat(filepath.Join(root(t), f[1])); err != nil {
			t.Errorf("CONTRIBUTING.md: folder %s does not exist", f[1])
		}
	}
}

func TestADRIndexListsEveryADR(t *testing.T) {
	var want []string
	for _, record := range tracked(t, "docs/adr/[0-9]*.md") {
		number, _, _ := strings.Cut(filepath.Base(record), "-")
		text := readFile(t, record)
		title := regexp.MustCompile(`^# ` + number + `\. .+\n`).MatchString(text)
		status := regexp.MustCompile(`(?m)^Status: (.+)$`).FindStringSubmatch(text)
		if !title || status == nil {
			t.Errorf("%s: want the title %q and a line %q", record, "# "+number+". …", "Status: …")
			continue
		}
		want = append(want, number+" "+filepath.Base(record)+" "+status[1])
	}
	if len(want) == 0 {
		t.Fatal("no decision records found")
	}
	var got []string
	row := regexp.MustCompile(`(?m)^\| \[(\d{4})\]\(([^)]+)\) \| [^|]+ \| ([^|]+) \|$`)
	for _, row := range row.FindAllStringSubmatch(readFile(t, "docs", "adr", "README.md"), -1) {
		got = append(got, row[1]+" "+row[2]+" "+row[3])
	}
	if !slices.Equal(want, got) {
		t.Errorf("docs/adr has the records\n%s\nand its README.md lists\n%s",
			strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestGuideShowsTheTestedConfigurations(t *testing.T) {
	guide := readFile(t, "docs", "guides", "registry-configurations.md")
	files := tracked(t, "docs/guides/registry/*")
	if len(files) < 3 {
		t.Fatalf("found only the configurations %v", files)
	}
	for _, file := range files {
		block := regexp.MustCompile("(?s)`" + regexp.QuoteMeta(file) + "`:\n\n```[a-z]+\n(.*?)```")
		shown := block.FindStringSubmatch(guide)
		if shown == nil || shown[1] != readFile(t, file) {
			t.Errorf("docs/guides/registry-configurations.md does not contain %s verbatim", file)
		}
	}
}

// Each picture must be on a page, and a Makefile target must update it.
func TestPicturesAreUsedAndHaveAMakeTarget(t *testing.T) {
	pictures := tracked(t, "docs/images/*")
	if len(pictures) == 0 {
		t.Fatal("no pictures found")
	}
	shown := map[string]bool{}
	for _, page := range pages(t) {
		for _, target := range links(t, page) {
			shown[path.Join(path.Dir(page), target)] = true
		}
	}
	for _, picture := range pictures {
		if !shown[picture] {
			t.Errorf("no page shows %s", picture)
		}
		if !strings.Contains(readFile(t, "Makefile"), " "+picture+"\n") {
			t.Errorf("no Makefile target creates %s", picture)
		}
	}
}
