package clitest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Block is a shell block on a page.
type Block struct {
	// Page is the path in the repository, Info the text after the opening fence, and Line the first line of Script.
	Page, Info string
	Line       int
	Script     string
}

var (
	fences  = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")
	program = regexp.MustCompile(
		`(?m)^ *(\$ )?(kubectl|helm|make|kcp-publisher|skr-agent|bin/[a-z-]+|oras|cosign|crane|docker|go|git) `)
)

// Shell returns the shell blocks in README.md, CONTRIBUTING.md, docs and the charts' NOTES.txt. The test fails for a
// block with commands but without a language.
func Shell(t *testing.T, checkout string) (blocks []Block) {
	t.Helper()
	pages := []string{"CONTRIBUTING.md", "README.md"}
	err := filepath.WalkDir(filepath.Join(checkout, "docs"), func(path string, _ fs.DirEntry, err error) error {
		page, _ := filepath.Rel(checkout, path) // cannot fail, because path is below checkout
		if filepath.Ext(page) == ".md" && !strings.HasPrefix(page, "docs/reference/cli/") {
			pages = append(pages, page)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Glob(filepath.Join(checkout, "charts", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, chart := range charts {
		if info, err := os.Stat(chart); err != nil || !info.IsDir() {
			continue
		}
		folder := "charts/" + filepath.Base(chart) + "/"
		pages, blocks = append(pages, folder+"README.md"),
			append(blocks, notes(t, checkout, folder+"templates/NOTES.txt"))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(checkout, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range fences.FindAllSubmatchIndex(text, -1) {
			info, script := string(text[at[4]:at[5]]), string(text[at[6]:at[7]])
			b := Block{Page: page, Info: info, Line: strings.Count(string(text[:at[6]]), "\n") + 1, Script: script}
			language, _, _ := strings.Cut(info, " ")
			switch {
			case slices.Contains([]string{"sh", "bash", "console"}, language):
				blocks = append(blocks, b)
			case language == "" && program.MatchString(script):
				t.Errorf(
					"%s:%d: block without a language: write sh after a fence with commands, text after any other",
					page, b.Line)
			}
		}
	}
	return blocks
}

var action = regexp.MustCompile(`\{\{[^}]*\}\}`)

// notes returns the commands in a chart's NOTES.txt.
func notes(t *testing.T, checkout, page string) Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, page))
	if err != nil {
		t.Fatal(err)
	}
	b := Block{Page: page, Line: 1}
	for line := range strings.Lines(string(text)) {
		if program.MatchString(line) {
			command, _, _ := strings.Cut(strings.TrimSpace(action.ReplaceAllString(line, "x")), "   ")
			b.Script += command + "\n"
		}
	}
	return b
}

// Calls returns the words in each of the block's commands. It replaces variables and command substitutions with "x".
func (b Block) Calls(t *testing.T) (calls [][]string) {
	t.Helper()
	script := b.Script
	if strings.HasPrefix(strings.TrimSpace(script), "$ ") { // other lines are output
		var typed strings.Builder
		for line := range strings.Lines(script) {
			if line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				typed.WriteString(line + "\n")
			}
		}
		script = typed.String()
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(script), b.Page)
	if err != nil {
		t.Errorf("%s:%d: invalid shell syntax: %v", b.Page, b.Line, err)
		return nil
	}
	config := &expand.Config{
		Env:      expand.FuncEnviron(func(string) string { return "x" }),
		CmdSubst: func(out io.Writer, _ *syntax.CmdSubst) error { _, err := out.Write([]byte("x")); return err },
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			words := make([]string, 0, len(call.Args))
			for _, arg := range call.Args {
				word, err := expand.Literal(config, arg)
				if err != nil {
					t.Errorf("%s:%d: %v", b.Page, b.Line, err)
				}
				words = append(words, word)
			}
			calls = append(calls, words)
		}
		return true
	})
	return calls
}

// CheckPages fails if a page calls the program with invalid arguments or flags.
func CheckPages(t *testing.T, newProgram func() *cobra.Command, checkout string) {
	t.Helper()
	name, checked := newProgram().Name(), 0
	for _, b := range Shell(t, checkout) {
		for _, words := range b.Calls(t) {
			if words[0] != name && words[0] != "bin/"+name {
				continue
			}
			checked++
			if err := parseLine(newProgram(), words[1:]); err != nil {
				t.Errorf("%s:%d: %s: %v", b.Page, b.Line, strings.Join(words, " "), err)
			}
		}
	}
	if checked < 10 {
		t.Errorf("found %d calls of %s on the pages, want at least 10", checked, name)
	}
}

// parseLine parses and validates a command line, but does not run the command.
func parseLine(root *cobra.Command, words []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if !command.Runnable() {
		return cobra.NoArgs(command, append(command.Flags().Args(), "COMMAND"))
	}
	if err := command.ValidateArgs(command.Flags().Args()); err != nil {
		return err
	}
	if err := command.ValidateRequiredFlags(); err != nil {
		return err
	}
	return command.ValidateFlagGroups()
}
