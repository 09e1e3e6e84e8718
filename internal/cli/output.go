package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// outputFormats is the annotation on format flags that lists the flag's values. Commands check the value before they
// run.
const outputFormats = "kyma-pull.dev/formats"

// OutputFlag adds flag -o with the values table, json and yaml, and with additional values. Print does not support the
// additional values.
func OutputFlag(flags *pflag.FlagSet, into *string, more ...string) {
	FormatFlag(flags, into, "output", "o", more...)
}

// FormatFlag adds the same flag as OutputFlag under another name.
func FormatFlag(flags *pflag.FlagSet, into *string, name, shorthand string, more ...string) {
	formats := append([]string{"table", "json", "yaml"}, more...)
	flags.StringVarP(into, name, shorthand, "table", listFormats(formats))
	flags.Lookup(name).Annotations = map[string][]string{outputFormats: formats}
}

func listFormats(formats []string) string {
	last := len(formats) - 1
	return strings.Join(formats[:last], ", ") + " or " + formats[last]
}

// checkFormats returns an error for format flags with an invalid value. Without this check, a command could make a
// change and fail when it prints the result.
func checkFormats(flags *pflag.FlagSet) error {
	var problems []error
	flags.VisitAll(func(flag *pflag.Flag) {
		formats, has := flag.Annotations[outputFormats]
		if !has || slices.Contains(formats, flag.Value.String()) {
			return
		}
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand
		}
		problems = append(problems,
			Usage(fmt.Errorf("%s %q: must be %s", name, flag.Value.String(), listFormats(formats))))
	})
	return errors.Join(problems...)
}

// Print writes data in the format of flag -o. For the format "table", it calls the function table.
func Print(out io.Writer, format string, data any, table func(io.Writer)) error {
	switch format {
	case "table":
		table(out)
		return nil
	case "json":
		return writeJSON(out, data)
	case "yaml":
		return writeYAML(out, data)
	}
	return fmt.Errorf("unsupported output format %q", format)
}
