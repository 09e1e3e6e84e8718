package clitest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kyma-pull/kyma-pull/internal/measure"
)

// metricPrefix is the prefix of the names of all metrics of this project.
const metricPrefix = "kyma_pull_"

// CheckMetrics fails if a page's table does not match the program's metrics. With update, it writes the table. The
// table is between the comments "PROGRAM" and "end of PROGRAM". exported contains the collectors that the
// program registers only while it runs.
func CheckMetrics(t *testing.T, path, program string, update bool, exported ...prometheus.Collector) {
	t.Helper()
	checkRegistered(t, exported)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(data), "<!-- "+program+" -->\n")
	part, after, ends := strings.Cut(rest, "<!-- end of "+program+" -->\n")
	if !begins || !ends {
		t.Fatalf("%s has no table between the comments %q and %q", path, program, "end of "+program)
	}
	table := metricsTable()
	if part == table {
		return
	}
	if !update {
		t.Fatalf("%s differs from the metrics that %s registers: run the test with -update and commit the document",
			path, program)
	}
	text := before + "<!-- " + program + " -->\n" + table + "<!-- end of " + program + " -->\n" + after
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// metricsTable returns the program's metrics as a Markdown table.
func metricsTable() string {
	var text strings.Builder
	text.WriteString("| metric | type | labels | exported by | meaning |\n|---|---|---|---|---|\n")
	for _, d := range measure.Definitions() {
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

// checkRegistered fails if the registered metrics differ from the definitions in package measure. Otherwise, the table
// would omit a metric that was registered without package measure, and would list a metric that is never registered.
func checkRegistered(t *testing.T, exported []prometheus.Collector) {
	t.Helper()
	described := make(chan *prometheus.Desc, 1000)
	for _, c := range append(exported, metrics.Registry.(prometheus.Collector)) {
		c.Describe(described)
	}
	close(described)
	var registered, want []string
	for d := range described {
		if text := d.String(); strings.Contains(text, `fqName: "`+metricPrefix) {
			registered = append(registered, text)
		}
	}
	for _, d := range measure.Definitions() {
		want = append(want, d.Desc().String())
	}
	slices.Sort(registered)
	slices.Sort(want)
	if !slices.Equal(registered, want) {
		t.Errorf("the registered metrics differ from the definitions in package measure: registered:\n%s\ndefined:\n%s",
			strings.Join(registered, "\n"), strings.Join(want, "\n"))
	}
}
