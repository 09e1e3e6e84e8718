package clitest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kyma-pull/kyma-pull/internal/measure"
)

// metricPrefix is the prefix of our own metrics' names.
const metricPrefix = "kyma_pull_"

// CheckMetrics fails if a page's table does not match the program's metrics. With update, it writes the table. The
// table is between the comments "PROGRAM" and "end of PROGRAM".
func CheckMetrics(t *testing.T, path, program string, update bool) {
	t.Helper()
	checkRegistered(t)
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

// checkRegistered fails for a metric that was registered without package measure. The table would not contain it.
func checkRegistered(t *testing.T) {
	t.Helper()
	described := make(chan *prometheus.Desc, 1000)
	metrics.Registry.(prometheus.Collector).Describe(described)
	close(described)
	defined := map[string]bool{}
	for _, d := range measure.Definitions() {
		defined[d.Desc().String()] = true
	}
	for d := range described {
		if text := d.String(); strings.Contains(text, `fqName: "`+metricPrefix) && !defined[text] {
			t.Errorf("metric %s is registered, but not defined with package measure", text)
		}
	}
}
