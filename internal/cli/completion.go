package cli

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completionTimeout limits the time to list completion candidates.
const completionTimeout = 3 * time.Second

// plainName matches names without shell syntax. Other names are never candidates, because bash would execute a name
// such as $(reboot).
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]*$`)

// Names lists the completion candidates for an argument or a flag. The slice args contains the preceding arguments.
type Names func(ctx context.Context, args []string) ([]string, error)

// Complete adds shell completion to a command's arguments. The first function lists candidates for the first
// argument, and so on. A function that fails does not add candidates.
func Complete(cmd *cobra.Command, arguments ...Names) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(arguments) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return listed(cmd.Context(), args, arguments[len(args)])
	}
}

// CompleteFlag adds shell completion to the values of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, names Names) {
	if cmd.Flags().Lookup(flag) == nil {
		panic("complete flag --" + flag + ": the flag does not exist")
	}
	_ = cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return listed(cmd.Context(), args, names)
		}) // cannot fail, because the flag exists
}

func listed(ctx context.Context, args []string, names Names) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	all, err := names(ctx, args)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	shown := all[:0:0]
	for _, name := range all {
		if plainName.MatchString(name) {
			shown = append(shown, name)
		}
	}
	return shown, cobra.ShellCompDirectiveNoFileComp
}

// completeFixed adds shell completion to flags with fixed values.
func completeFixed(cmd *cobra.Command) {
	fixed := map[string][]string{
		"color": {"auto", "always", "never"}, "log-level": {"trace", "debug", "info", "error"},
		"log-format": {"json", "console"},
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		values := fixed[flag.Name]
		if formats, has := flag.Annotations[outputFormats]; has {
			values = formats
		}
		if values == nil {
			return
		}
		if _, done := cmd.GetFlagCompletionFunc(flag.Name); !done {
			// This cannot fail, because the flag exists.
			_ = cmd.RegisterFlagCompletionFunc(flag.Name,
				cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, inner := range cmd.Commands() {
		completeFixed(inner)
		completeSettings(inner)
	}
}

// asPlugin changes the program name in the help to "kubectl NAME" if program, the path of the executable, ends in
// kubectl-NAME.
func asPlugin(root *cobra.Command, program string) {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	plugin, is := strings.CutPrefix(name, "kubectl-")
	if !is || plugin == "" {
		return
	}
	root.Annotations = map[string]string{
		cobra.CommandDisplayNameAnnotation: "kubectl " + strings.ReplaceAll(plugin, "_", "-"),
	}
}
