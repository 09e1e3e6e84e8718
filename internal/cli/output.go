package cli

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// OutputFlag adds -o.
func OutputFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVarP(into, "output", "o", "table", "table, json or yaml")
}

// Print writes data in the format that -o names; table draws the table.
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
	return Usage(fmt.Errorf("-o %q: want table, json or yaml", format))
}
