// Package alerts tests the charts' alerts with promtool. It checks that exactly the expected alerts fire for given
// time series.
package alerts

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/hack/assets"
)

// Case contains time series and the alerts that must fire for them.
type Case struct {
	Name string
	// Series maps time series to their values in promtool's notation, one value per minute.
	Series map[string]string
	// At is the evaluation time, counted from the first value of the series.
	At     time.Duration
	Firing []string
}

// Alert is an alerting rule in a chart.
type Alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// File returns the path of the file with a chart's alerts. root is the folder of the checkout.
func File(root, chart string) string {
	return filepath.Join(root, "charts", chart, "files", "monitoring", "alerts.yaml")
}

// Read returns a file's alerts.
func Read(path string) ([]Alert, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rules struct {
		Groups []struct {
			Rules []Alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(data, &rules); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var all []Alert
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// Promtool runs promtool and builds the program first if it does not exist.
func Promtool(ctx context.Context, args ...string) error {
	path, err := assets.EnsurePromtool(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

type input struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type sample struct {
	Labels string `json:"labels"`
	Value  int    `json:"value"`
}

type expression struct {
	Expr     string   `json:"expr"`
	EvalTime string   `json:"eval_time"`
	Samples  []sample `json:"exp_samples,omitempty"`
}

type unit struct {
	Name     string       `json:"name"`
	Interval string       `json:"interval"`
	Series   []input      `json:"input_series"`
	Exprs    []expression `json:"promql_expr_test"`
}

// Check runs promtool with the alerting rules in a file for all cases. The error lists missing and unexpected alerts.
// Check writes promtool's test file to dir.
func Check(ctx context.Context, dir, rules string, cases []Case) error {
	rules, err := filepath.Abs(rules)
	if err != nil {
		return err
	}
	var tests []unit
	for _, c := range cases {
		u := unit{Name: c.Name, Interval: "1m"}
		for series, values := range c.Series {
			u.Series = append(u.Series, input{series, values})
		}
		firing := expression{
			Expr:     `count by (alertname) (ALERTS{alertstate="firing"}) > 0`,
			EvalTime: fmt.Sprintf("%dm", int(c.At.Minutes())),
		}
		for _, alert := range c.Firing {
			firing.Samples = append(firing.Samples, sample{`{alertname="` + alert + `"}`, 1})
		}
		u.Exprs = []expression{firing}
		tests = append(tests, u)
	}
	data, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests,
	})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "alerts.test.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	return Promtool(ctx, "test", "rules", file)
}

// Scraped parses a scrape and returns the values of the project's metrics. The keys are series in promtool's
// notation.
func Scraped(exposition io.Reader) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(exposition)
	if err != nil {
		return nil, fmt.Errorf("read the scraped metrics: %w", err)
	}
	found := map[string]float64{}
	for name, family := range families {
		if !strings.HasPrefix(name, "kyma_pull_") {
			continue
		}
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Now()}, family)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		for _, s := range samples {
			found[s.Metric.String()] = float64(s.Value)
		}
	}
	return found, nil
}

// Changing returns time series that change once. Each series has its value from the first scrape for some minutes, and
// then its value from the second scrape for as many minutes.
func Changing(before, after map[string]float64, minutes int) map[string]string {
	series := map[string]string{}
	for name, value := range after {
		first := fmt.Sprintf("_x%d", minutes)
		if was, had := before[name]; had {
			first = fmt.Sprintf("%gx%d", was, minutes)
		}
		series[name] = fmt.Sprintf("%s %gx%d", first, value, minutes)
	}
	return series
}

// Names returns the alerts' names, sorted.
func Names(all []Alert) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.Alert)
	}
	slices.Sort(names)
	return names
}
