package clitest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// ConfigurationPage is the path of the configuration reference in folder docs.
const ConfigurationPage = "reference/configuration.md"

// CheckConfiguration fails if the configuration page does not match the program's flags. With update, it writes the key
// table. It also runs the program with each example on the page.
func CheckConfiguration(t *testing.T, newProgram func() *cobra.Command, docs string, update bool) {
	t.Helper()
	path := filepath.Join(docs, ConfigurationPage)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root := newProgram()
	begin, end := "<!-- keys of "+root.Name()+", written by make generate -->\n", "<!-- end of keys -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, also := strings.Cut(rest, end)
	if !found || !also {
		t.Fatalf("%s has no line %q followed by a line %q", path, begin, end)
	}
	got := before + begin + keysTable(root) + end + after
	switch {
	case update:
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != string(page):
		t.Errorf("%s is out of date: run make generate", path)
	}
	checkExamples(t, newProgram, got)
}

func checkExamples(t *testing.T, newProgram func() *cobra.Command, page string) {
	t.Helper()
	examples := regexp.MustCompile("(?ms)^```yaml "+newProgram().Name()+" ([a-z -]+)\n(.*?)^```$").
		FindAllStringSubmatch(page, -1)
	if len(examples) == 0 {
		t.Errorf("the page has no example for %s", newProgram().Name())
	}
	for _, example := range examples {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(example[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		root, called := newProgram(), false
		cmd, _, err := root.Find(strings.Fields(example[1]))
		if err != nil {
			t.Fatal(err)
		}
		cmd.RunE, cmd.PreRunE = func(*cobra.Command, []string) error { called = true; return nil }, nil
		var out bytes.Buffer
		args := append(strings.Fields(example[1]), "--config", file)
		if code := cli.Execute(root, nil, args, &out, &out); code != cli.ExitDone || !called {
			t.Errorf("%s %s does not run with this configuration file: %s\n%s", root.Name(), example[1], &out,
				example[2])
		}
	}
}

// configKey identifies a row in the table. Commands can have different defaults for flags with the same name.
type configKey struct{ name, kind, byDefault string }

func keysTable(root *cobra.Command) string {
	in := map[configKey][]string{}
	add := func(f *pflag.Flag, where string) {
		if f.Hidden || slices.Contains([]string{"help", "config", "version", "set"}, f.Name) {
			return
		}
		key := configKey{f.Name, kindOf(f), f.DefValue}
		if !slices.Contains(in[key], where) {
			in[key] = append(in[key], where)
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { add(f, "") })
	for _, cmd := range commands(root) {
		if cmd.HasParent() && cmd.Name() != "completion" && cmd.Parent().Name() != "completion" &&
			cmd.Name() != "help" {
			name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
			cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { add(f, name) })
			if settings := cli.SettingsOf(cmd.Flags()); settings != nil {
				settings.VisitAll(func(f *pflag.Flag) { add(f, name+" (setting)") })
			}
			cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { add(f, name+" …") })
		}
	}
	keys := make([]configKey, 0, len(in))
	for key := range in {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b configKey) int {
		return strings.Compare(a.name+" "+in[a][0]+a.byDefault, b.name+" "+in[b][0]+b.byDefault)
	})
	var table strings.Builder
	table.WriteString("| key | value | default | commands |\n|---|---|---|---|\n")
	for _, key := range keys {
		shown, where := "", "all"
		if key.byDefault != "" && key.byDefault != "[]" {
			shown = "`" + key.byDefault + "`"
		}
		if in[key][0] != "" {
			slices.Sort(in[key])
			where = "`" + strings.Join(in[key], "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", key.name, key.kind, shown, where)
	}
	return table.String()
}

func kindOf(f *pflag.Flag) string {
	kind := map[string]string{
		"bool": "boolean", "int": "number", "int64": "number", "int32": "number", "uint": "number", "uint8": "number",
		"float32": "number", "float64": "number",
		"duration": "duration", "stringArray": "string", "stringSlice": "string", "string": "string",
	}[f.Value.Type()]
	if kind == "" {
		kind = f.Value.Type()
	}
	if _, repeatable := f.Value.(pflag.SliceValue); repeatable {
		return kind + ", or a list"
	}
	return kind
}
