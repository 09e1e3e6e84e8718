package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const suggestionDistance = 2

// programCommands lists the commands that only one of the two programs has.
var programCommands = map[string][]string{
	"kcp-publisher": {
		"check-module", "component", "diff", "enroll", "events", "export", "images", "import-report", "keys", "logs",
		"move", "promote", "publish", "reconcile", "registry", "removals", "resume", "revoke", "rollout", "status",
		"suspend", "takeover", "token-service", "train", "tree", "ui", "why",
	},
	"skr-agent": {"export-report", "import", "provenance", "verify"},
}

// unknownCommand returns the error for an unknown subcommand. It names the other program if that program has the
// command.
func unknownCommand(group *cobra.Command, word string) error {
	for program, commands := range programCommands {
		if !group.HasParent() && program != group.Name() && slices.Contains(commands, word) {
			return Usage(fmt.Errorf("unknown command %q: run `%s %s`", word, program, word))
		}
	}
	group.SuggestionsMinimumDistance = suggestionDistance
	return Usage(fmt.Errorf("unknown command %q%s", word, closestNames(group.SuggestionsFor(word), "")))
}

// refuseUnknownTopics makes the completion and help commands fail for unknown words. By default, cobra prints help
// and returns exit code 0, so a shell would load the help as a completion script.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Short = "print the completion script for a shell"
			for _, shell := range cmd.Commands() {
				shell.Short = "print the completion script for " + shell.Name()
			}
			group := Group(cmd.Use, cmd.Short)
			cmd.Args, cmd.RunE = group.Args, group.RunE
		case "help":
			cmd.Short = "show the help of a command"
			cmd.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				if len(rest) > 0 && about.HasSubCommands() {
					return unknownCommand(about, rest[0])
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		}
	}
}

// Required is a required flag. Given reports whether the user set the flag.
type Required struct {
	Flag  string
	Given bool
}

// RequireFlags returns an error that lists the missing flags, or nil.
func RequireFlags(flags ...Required) error {
	var missing []string
	for _, flag := range flags {
		if !flag.Given {
			missing = append(missing, flag.Flag)
		}
	}
	last := len(missing) - 1
	switch {
	case last < 0:
		return nil
	case last == 0:
		return Usage(fmt.Errorf("%s is required", missing[0]))
	}
	return Usage(fmt.Errorf("%s and %s are required", strings.Join(missing[:last], ", "), missing[last]))
}

// flagError improves pflag's error for unknown flags. If the subcommand is also unknown, the error is about the
// subcommand.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && isSetting(cmd, unknown.GetSpecifiedName()) {
		name := unknown.GetSpecifiedName()
		return Usage(fmt.Errorf(
			"--%s: %s is a setting, not a flag: use --%s %s=VALUE, or key %s in the --config file", name, name,
			setName, name, name))
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return Usage(fmt.Errorf("--%s %q: must be a duration such as 30s, 5m or 24h", invalid.GetFlag().Name,
			invalid.GetValue()))
	}
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		return Usage(fmt.Errorf("%w%s", err, closestNames(similarFlags(cmd, unknown.GetSpecifiedName()), "--")))
	}
	return Usage(err)
}

// maxShortName is the maximum length of a short name. Typos rarely change the first letter of a short name, but many
// short names differ in only two letters, such as keys and yes.
const maxShortName = 4

func similarFlags(cmd *cobra.Command, name string) []string {
	distance := min(suggestionDistance, len(name)/2) // a distance of 2 would match most three-letter names
	names := &cobra.Command{SuggestionsMinimumDistance: distance}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && (len(name) > maxShortName || flag.Name[0] == name[0]) {
			names.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// DidYouMean returns the text ": did you mean X or Y?" with the known names that are similar to an unknown name. It
// returns "" if no known name is similar.
func DidYouMean(name string, of []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, one := range of {
		names.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	return closestNames(names.SuggestionsFor(name), "")
}

func closestNames(names []string, prefix string) string {
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

const maxMeant = 3

// ClosestNames is like DidYouMean, but returns at most three names.
func ClosestNames(typed string, known []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, name := range known {
		names.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	near := names.SuggestionsFor(typed)
	slices.Sort(near)
	near = slices.Compact(near)
	return closestNames(near[:min(len(near), maxMeant)], "")
}
