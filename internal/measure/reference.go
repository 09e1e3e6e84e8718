package measure

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Reference returns the program's metrics as a Markdown table.
func Reference() string {
	var text strings.Builder
	text.WriteString("| metric | type | labels | exported by | meaning |\n|---|---|---|---|---|\n")
	for _, d := range Definitions() {
		of := "every replica"
		if d.Leader {
			of = "leader"
		}
		labels := strings.Join(d.Labels, "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Kind, labels, of,
			strings.ReplaceAll(d.Help, "|", `\|`))
	}
	return text.String()
}

// CheckReference returns an error if a document's table does not match the program's metrics. With update, it writes
// the table. The table is between the comments "PROGRAM" and "end of PROGRAM".
func CheckReference(path, program string, update bool) error {
	if err := checkRegistered(); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(data), "<!-- "+program+" -->\n")
	part, after, ends := strings.Cut(rest, "<!-- end of "+program+" -->\n")
	if !begins || !ends {
		return fmt.Errorf("%s has no table between the comments %q and %q", path, program, "end of "+program)
	}
	if part == Reference() {
		return nil
	}
	if !update {
		return fmt.Errorf(
			"%s differs from the metrics that %s registers: run the test with -update and commit the document", path,
			program)
	}
	text := before + "<!-- " + program + " -->\n" + Reference() + "<!-- end of " + program + " -->\n" + after
	return os.WriteFile(path, []byte(text), 0o644)
}

const prefix = "kyma_pull_"

// checkRegistered returns an error for a metric that was registered without this package. The documentation would not
// contain it.
func checkRegistered() error {
	described := make(chan *prometheus.Desc, 1000)
	metrics.Registry.(prometheus.Collector).Describe(described)
	close(described)
	var registered, want []string
	for d := range described {
		if text := d.String(); strings.Contains(text, `fqName: "`+prefix) {
			registered = append(registered, text)
		}
	}
	for _, d := range Definitions() {
		want = append(want, d.Desc().String())
	}
	slices.Sort(registered)
	slices.Sort(want)
	if !slices.Equal(registered, want) {
		return fmt.Errorf("the registered metrics differ from the definitions in package measure: registered:\n%s\n"+
			"defined:\n%s", strings.Join(registered, "\n"), strings.Join(want, "\n"))
	}
	return nil
}
