package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const setName = "set"

// settings is the pflag.Value for --set. Its flag set contains the command's settings.
type settings struct{ all *pflag.FlagSet }

// Settings adds --set to flags and returns the flag set for a command's settings. A setting is an option that few
// users change. It can be set in the configuration file or with --set KEY=VALUE.
func Settings(flags *pflag.FlagSet) *pflag.FlagSet {
	s := settings{pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	flags.Var(s, setName, "set one of the settings below; can be repeated, takes precedence over the file of --config")
	return s.all
}

// SettingsOf returns the settings that Settings added to a command's flags, or nil if the command has no settings.
func SettingsOf(flags *pflag.FlagSet) *pflag.FlagSet {
	if flag := flags.Lookup(setName); flag != nil {
		if s, is := flag.Value.(settings); is {
			return s.all
		}
	}
	return nil
}

func (s settings) String() string { return "" }

func (s settings) Type() string { return "KEY=VALUE" }

// Set parses KEY=VALUE.
func (s settings) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return errors.New("must be KEY=VALUE")
	}
	if s.all.Lookup(key) == nil {
		var known []string
		s.all.VisitAll(func(setting *pflag.Flag) { known = append(known, setting.Name) })
		return fmt.Errorf("unknown setting %q%s", key, DidYouMean(key, known))
	}
	return cause(s.all.Set(key, value))
}

// cause unwraps pflag's error for an invalid value, because pflag's text would call the setting a flag.
func cause(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}

// optionNames returns the names of a command's flags and settings.
func optionNames(flags *pflag.FlagSet) []string {
	var names []string
	add := func(flag *pflag.Flag) { names = append(names, flag.Name) }
	flags.VisitAll(add)
	if all := SettingsOf(flags); all != nil {
		all.VisitAll(add)
	}
	return names
}

func isSetting(cmd *cobra.Command, name string) bool {
	all := SettingsOf(cmd.Flags())
	return all != nil && all.Lookup(name) != nil
}

// completeSettings adds shell completion for setting names to --set.
func completeSettings(cmd *cobra.Command) {
	all := SettingsOf(cmd.Flags())
	if all == nil {
		return
	}
	var keys []string
	all.VisitAll(func(setting *pflag.Flag) { keys = append(keys, setting.Name+"=\t"+setting.Usage) })
	slices.Sort(keys)
	// This cannot fail, because the flag exists.
	_ = cmd.RegisterFlagCompletionFunc(setName,
		cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
}

// UsageOfSettings returns the help text of a command's settings, wrapped to the given width.
func UsageOfSettings(cmd *cobra.Command, width int) string {
	all := SettingsOf(cmd.Flags())
	if all == nil {
		return ""
	}
	var text strings.Builder
	for line := range strings.Lines(all.FlagUsagesWrapped(width)) {
		text.WriteString(strings.Replace(line, "      --", "  ", 1))
	}
	return text.String()
}
