package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCompatibilityPageListsEveryUpstreamTest(t *testing.T) {
	names, err := os.ReadFile("upstream.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## Upstream's end-to-end tests")
	if all := strings.Fields(string(names)); !found || len(all) < 30 {
		t.Fatalf("got %d recorded tests and table %t, want at least 30 tests and the table", len(all), found)
	}
	rows := regexp.MustCompile(`(?m)^\| .* \|$`).FindAllString(table, -1)
	proof := regexp.MustCompile("`Test[A-Z][A-Za-z0-9]+")
	for _, name := range strings.Fields(string(names)) {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "`"+name+"`") })
			if at < 0 {
				t.Fatalf("%s has no row for test %s", page, name)
			}
			if !proof.MatchString(rows[at]) && !strings.Contains(rows[at], "not applicable: ") {
				t.Errorf("row without a test of this project: %s", rows[at])
			}
		})
	}
}

func TestMissingTestsAndFlagsAreListed(t *testing.T) {
	const source = "flag.StringVar(&f.Addr, \"addr\", \"\", \"\")\n" +
		"flag.DurationVar(\n\t&f.Every,\n\t\"every\", 1, \"\")"
	flags := flagsOf(source)
	if !slices.Equal(flags, []string{"addr", "every"}) {
		t.Fatalf("got flags %v, want addr and every", flags)
	}
	if got := missingNames("the flag `--addr`", flags, "`--%s`"); !slices.Equal(got, []string{"every"}) {
		t.Errorf("got %v for flags without a row, want every", got)
	}
}
