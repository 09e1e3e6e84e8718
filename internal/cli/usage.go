package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setUsage has the help list the flags that say how to connect apart from the others, in lines that fit.
func setUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("usagesOf", usagesOf) // of the process, and always the same
	template := root.UsageTemplate()
	template = strings.Replace(template, ".LocalFlags.FlagUsages", `usagesOf . false false`, 1)
	template = strings.Replace(template, ".InheritedFlags.FlagUsages", `usagesOf . true false`, 1)
	template = strings.Replace(template, "{{if .HasHelpSubCommands}}", `{{with usagesOf . false true}}

Connection Flags:
{{. | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}`, 1)
	root.SetUsageTemplate(template)
}

// usagesOf returns the help of a command's flags: of its own or of those that all have, without those that say how to connect, or of these alone.
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
	width := 0
	if IsTerminal(cmd.OutOrStdout()) {
		width = Width(cmd.OutOrStdout())
	}
	return shown.FlagUsagesWrapped(width)
}
