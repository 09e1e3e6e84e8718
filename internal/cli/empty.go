package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// valueFlag is the annotation on flags whose value must not be empty.
	valueFlag = "kyma-pull.dev/value"
	// emptyArguments is the annotation on commands that accept an empty argument.
	emptyArguments = "kyma-pull.dev/empty-arguments"
)

// RequireValues makes a command fail if one of the flags is set to an empty value. Use it for flags whose empty value
// would select more objects or turn off a check. A script passes an empty value if its variable is not set.
func RequireValues(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := flags.Lookup(name)
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[valueFlag] = nil
	}
}

// AllowEmptyArguments makes a command accept empty arguments.
func AllowEmptyArguments(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[emptyArguments] = ""
}

// checkEmpty returns an error for empty arguments, and for empty values of flags that RequireValues marked.
func checkEmpty(cmd *cobra.Command, args []string) error {
	var problems []error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, required := flag.Annotations[valueFlag]; required && flag.Changed && isEmpty(flag.Value) {
			problems = append(problems, Usage(fmt.Errorf("--%s: the value is empty: set a value or remove the flag",
				flag.Name)))
		}
	})
	_, accepted := cmd.Annotations[emptyArguments]
	if isCompletion := cmd.Name() == cobra.ShellCompRequestCmd; accepted || isCompletion {
		return errors.Join(problems...)
	}
	for i, arg := range args {
		if arg == "" {
			problems = append(problems, Usage(fmt.Errorf("argument %d is empty", i+1)))
		}
	}
	return errors.Join(problems...)
}

// isEmpty reports whether a flag's value is empty. A list is empty if each of its entries is empty.
func isEmpty(value pflag.Value) bool {
	if list, is := value.(pflag.SliceValue); is {
		return !slices.ContainsFunc(list.GetSlice(), func(entry string) bool { return entry != "" })
	}
	return value.String() == ""
}
