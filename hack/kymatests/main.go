// Command kymatests compares the end-to-end tests and flags in a checkout of lifecycle-manager with
// docs/kyma-compatibility.md. It lists the tests and flags that have no row on this page.
//
//	kymatests [-record] FOLDER
//
// With -record, it writes the test names to hack/kymatests/upstream.txt, which a test in this package reads.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	page     = "docs/kyma-compatibility.md"
	recorded = "hack/kymatests/upstream.txt"
)

func main() {
	record := flag.Bool("record", false, "write the names of the tests to "+recorded)
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: kymatests [-record] FOLDER")
		os.Exit(2)
	}
	missing, err := compare(flag.Arg(0), *record)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kymatests:", err)
		os.Exit(1)
	}
	for _, line := range missing {
		fmt.Println(line)
	}
	if len(missing) > 0 {
		os.Exit(1)
	}
}

// compare returns one line for each of the checkout's tests and flags that has no row on the compatibility page.
func compare(checkout string, record bool) ([]string, error) {
	tests, err := testsOf(checkout)
	if err != nil {
		return nil, err
	}
	if record {
		if err := os.WriteFile(recorded, []byte(strings.Join(tests, "\n")+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	source, err := os.ReadFile(filepath.Join(checkout, "internal", "pkg", "flags", "flags.go"))
	if err != nil {
		return nil, fmt.Errorf("read the flags: %w", err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range missingNames(string(text), tests, "`%s`") {
		missing = append(missing, "test "+name)
	}
	for _, name := range missingNames(string(text), flagsOf(string(source)), "`--%s`") {
		missing = append(missing, "flag --"+name)
	}
	return missing, nil
}

// testsOf returns the names of the end-to-end tests: their file names without the ending.
func testsOf(checkout string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(checkout, "tests", "e2e", "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no tests in tests/e2e", checkout)
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "_test.go")
		if name != "suite" && name != "utils" {
			names = append(names, name)
		}
	}
	return names, nil
}

var flagName = regexp.MustCompile(`(?s)flag\.\w+Var\(\s*&[\w.]+,\s*"([a-z0-9-]+)"`)

// flagsOf returns the sorted names of the flags in Go source.
func flagsOf(source string) []string {
	var names []string
	for _, found := range flagName.FindAllStringSubmatch(source, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// missingNames returns the names that are missing on a page. form is the format string for a name on the
// page, such as "`%s`".
func missingNames(page string, names []string, form string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.Contains(page, fmt.Sprintf(form, name))
	})
}
