// Package clitest contains tests that kcp-publisher and skr-agent share: tests for the help, the reference pages,
// metrics, damaged files and full disks.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// commands returns a command and all its available subcommands.
func commands(of *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{of}
	for _, inner := range of.Commands() {
		if inner.IsAvailableCommand() {
			all = append(all, commands(inner)...)
		}
	}
	return all
}

// CheckValues fails if a flag's usage contains back-quoted text that is not the name of the flag's value. pflag shows
// back-quoted text as the value's name.
func CheckValues(t *testing.T, root *cobra.Command) {
	t.Helper()
	value := regexp.MustCompile(`^[A-Z][A-Z:/=-]*$`)
	for _, cmd := range commands(root) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			own, _ := pflag.UnquoteUsage(&pflag.Flag{Value: f.Value})
			if name != own && !value.MatchString(name) || strings.Contains(usage, "`") {
				t.Errorf("%s --%s: the help shows its value as %q because of back quotes in %q", cmd.CommandPath(),
					f.Name, name, f.Usage)
			}
		})
	}
}

// maxHelpLine is the maximum line width in a command's description.
const maxHelpLine = 160

// CheckHelpLines fails for commands whose description has lines longer than maxHelpLine.
func CheckHelpLines(t *testing.T, root *cobra.Command) {
	t.Helper()
	for _, cmd := range commands(root) {
		for line := range strings.Lines(cmd.Long) {
			if len(line) > maxHelpLine+1 {
				t.Errorf("%s: a line of the help has %d characters, more than %d: %q", cmd.CommandPath(), len(line)-1,
					maxHelpLine, line)
			}
		}
	}
}

// CheckReference fails if a program's reference page does not match its commands and flags. With update, it writes the
// page.
func CheckReference(t *testing.T, root *cobra.Command, folder string, update bool) {
	t.Helper()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var page bytes.Buffer
	page.WriteString("# " + root.Name() + "\n\nAll commands and flags, as shown by `" + root.Name() +
		" help`. `make generate` writes this page.\n")
	link := func(file string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-") }
	for _, cmd := range commands(root) {
		if cmd.HasParent() &&
			(cmd.Name() == "completion" || cmd.Parent().Name() == "completion" || cmd.Name() == "help") {
			continue
		}
		cmd.DisableAutoGenTag = true
		page.WriteString("\n")
		var section bytes.Buffer
		if err := doc.GenMarkdownCustom(cmd, &section, link); err != nil {
			t.Fatal(err)
		}
		page.WriteString(withSettings(section.String(), cmd))
	}
	// The page does not describe the completion commands, so remove the links to them.
	text := regexp.MustCompile(`(?m)^\* \[[a-z-]+ completion\].*\n`).ReplaceAllString(page.String(), "")
	got := regexp.MustCompile(`\n{3,}`).ReplaceAllString(strings.TrimRight(text, "\n")+"\n", "\n\n")
	path := filepath.Join(folder, root.Name()+".md")
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != got {
		t.Errorf("%s is out of date (%v): run make generate", path, err)
	}
}

// withSettings adds a command's settings to its section of the reference.
func withSettings(section string, cmd *cobra.Command) string {
	settings := cli.SettingsOf(cmd.Flags())
	if settings == nil {
		return section
	}
	text := "### Settings\n\nSet a setting with `--set KEY=VALUE`, or as a key in the file of `--config`.\n\n```\n" +
		cli.UsageOfSettings(cmd, 0) + "```\n\n"
	before, after, found := strings.Cut(section, "### Options inherited")
	if !found {
		return section + text
	}
	return before + text + "### Options inherited" + after
}
