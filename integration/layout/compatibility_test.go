package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheCompatibilityTableNamesTestsThatExist keeps docs/kyma-compatibility.md true: a row whose test is gone promises nothing.
func TestTheCompatibilityTableNamesTestsThatExist(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root(t), "docs", "kyma-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go")
	list.Dir = root(t)
	files, err := list.Output()
	if err != nil {
		t.Skipf("this is no git checkout: %v", err)
	}
	var tests strings.Builder
	for file := range strings.Lines(string(files)) {
		data, err := os.ReadFile(filepath.Join(root(t), strings.TrimSpace(file)))
		if err != nil {
			continue // listed and deleted
		}
		tests.Write(data)
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)(?:: ([^`]+))?`").FindAllStringSubmatch(string(table), -1)
	if len(named) < 30 {
		t.Fatalf("the table names %d tests, which is too few to be true", len(named))
	}
	for _, n := range named {
		if !strings.Contains(tests.String(), "func "+n[1]+"(t *testing.T)") {
			t.Errorf("%s: there is no such test", n[1])
		}
		if n[2] != "" && !strings.Contains(tests.String(), `"`+n[2]+`"`) {
			t.Errorf("%s: has no case %q", n[1], n[2])
		}
	}
}
