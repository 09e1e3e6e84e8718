package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// outputFormats is the annotation on flag -o that lists the flag's values for shell completion.
const outputFormats = "kyma-pull.dev/formats"

// OutputFlag adds flag -o with the values table, json and yaml, and with additional values. Print does not support the
// additional values.
func OutputFlag(flags *pflag.FlagSet, into *string, more ...string) {
	formats := append([]string{"table", "json", "yaml"}, more...)
	last := len(formats) - 1
	flags.StringVarP(into, "output", "o", "table", strings.Join(formats[:last], ", ")+" or "+formats[last])
	flags.Lookup("output").Annotations = map[string][]string{outputFormats: formats}
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
	return Usage(fmt.Errorf("-o %q: must be table, json or yaml", format))
}
