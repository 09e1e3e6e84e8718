package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setUsage changes cobra's help: it lists connection flags and settings in separate sections, and wraps flags to the
// width of the terminal.
func setUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("usagesOf", usagesOf) // cobra registers template functions globally
	cobra.AddTemplateFunc("settingsOf", func(cmd *cobra.Command) string { return UsageOfSettings(cmd, widthOf(cmd)) })
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

// usagesOf returns the help text of a command's connection flags, or else of its inherited or local flags.
func usagesOf(cmd *cobra.Command, inherited, connection bool) string {
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
	return shown.FlagUsagesWrapped(widthOf(cmd))
}

// widthOf returns the number of columns at which to wrap the help of a command, or 0 if its output is not a terminal.
func widthOf(cmd *cobra.Command) int {
	if IsTerminal(cmd.OutOrStdout()) {
		return Width(cmd.OutOrStdout())
	}
	return 0
}
