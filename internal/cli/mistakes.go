package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestionDistance is by how many letters what was meant may differ from what was typed.
const suggestionDistance = 2

// unknownCommand is the error for a word that is no command of a group.
func unknownCommand(group *cobra.Command, word string) error {
	group.SuggestionsMinimumDistance = suggestionDistance
	return Usage(fmt.Errorf("unknown command %q%s", word, meant(group.SuggestionsFor(word), "")))
}

// refuseUnknownTopics has cobra's own commands, completion and help, refuse words that they do not know. They would show a help, with exit
// code 0, which a shell that loads a completion would take for it.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			group := Group(cmd.Use, cmd.Short)
			cmd.Args, cmd.RunE = group.Args, group.RunE
		case "help":
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

// Required is a flag that has to be given, by its name, and whether it was.
type Required struct {
	Flag  string
	Given bool
}

// RequireFlags is the error that names the flags that were not given, and no others; nil where all were.
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

// flagMistake is the error for flags that cannot be parsed. Where a group was meant to run a command that it has not, that is the mistake: the flags
// are the command's.
func flagMistake(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		return Usage(fmt.Errorf("%w%s", err, meant(similarFlags(cmd, unknown.GetSpecifiedName()), "--")))
	}
	return Usage(err)
}

// similarFlags returns the flags of a command that somebody may have meant.
func similarFlags(cmd *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// DidYouMean ends an error with those of some names that somebody may have meant by another. It is empty where there are none.
func DidYouMean(name string, of []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, one := range of {
		names.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	return meant(names.SuggestionsFor(name), "")
}

func meant(names []string, prefix string) string {
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// maxMeant is how many names a mistyped one is compared to in what people read.
const maxMeant = 3

// Meant asks whether one of the known names was meant that a mistyped one is near to: ": did you mean X?", empty where none is near.
func Meant(typed string, known []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, name := range known {
		names.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	near := names.SuggestionsFor(typed)
	slices.Sort(near)
	near = slices.Compact(near)
	return meant(near[:min(len(near), maxMeant)], "")
}
