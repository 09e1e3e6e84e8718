package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setUsage changes the help: connection flags and settings get their own sections, and flags are wrapped to the
// terminal's width.
func setUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("usagesOf", flagUsages) // cobra registers template functions globally
	cobra.AddTemplateFunc("settingsOf", func(cmd *cobra.Command) string { return UsageOfSettings(cmd, helpWidth(cmd)) })
	template := root.UsageTemplate()
	template = strings.Replace(template, ".LocalFlags.FlagUsages", `usagesOf . false false`, 1)
	template = strings.Replace(template, ".InheritedFlags.FlagUsages", `usagesOf . true false`, 1)
	template = strings.Replace(template, "{{if .HasHelpSubCommands}}", `{{with usagesOf . false true}}

Connection Flags:
{{. | trimTrailingWhitespaces}}{{end}}{{with settingsOf .}}

Settings (--set KEY=VALUE, or keys in the file of --config):
{{. | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}`, 1)
	root.SetUsageTemplate(template)
}

// flagUsages returns the help of a command's connection flags, inherited flags or local flags.
func flagUsages(cmd *cobra.Command, inherited, connection bool) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = cmd.Flags().SortFlags
	add := func(flag *pflag.Flag) {
		if _, connects := flag.Annotations[connectionFlag]; connects == connection {
			shown.AddFlag(flag)
		}
	}
	if connection || !inherited {
		cmd.LocalFlags().VisitAll(add)
	}
	if connection || inherited {
		cmd.InheritedFlags().VisitAll(add)
	}
	return shown.FlagUsagesWrapped(helpWidth(cmd))
}

// helpWidth returns the width of a command's help in columns, or 0 if its output is not a terminal.
func helpWidth(cmd *cobra.Command) int {
	if IsTerminal(cmd.OutOrStdout()) {
		return Width(cmd.OutOrStdout())
	}
	return 0
}
