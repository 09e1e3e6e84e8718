package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
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
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(data)
	case "yaml":
		text, err := yaml.Marshal(data)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return Usage(fmt.Errorf("-o %q: want table, json or yaml", format))
}
