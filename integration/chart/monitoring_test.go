package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/integration/alerts"
)

var root = filepath.Join("..", "..")

type dashboard struct {
	UID, Title string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []panel
}

type panel struct {
	Title       string
	Datasource  struct{ UID string }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// dashboards returns all charts' rendered dashboards, by file name.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	found := map[string]dashboard{}
	for name, r := range cases(t) {
		if !strings.HasSuffix(name, "-full") {
			continue
		}
		for _, o := range objectsOf(t, r) {
			data, _ := o.Object["data"].(map[string]any)
			if o.GetKind() != "ConfigMap" || o.GetLabels()["grafana_dashboard"] == "" {
				continue
			}
			require.Equal(t, "1", o.GetLabels()["grafana_dashboard"])
			require.Equal(t, "kyma-pull", o.GetAnnotations()["grafana_folder"])
			require.Len(t, data, 1)
			for file, text := range data {
				var d dashboard
				require.NoError(t, json.Unmarshal([]byte(text.(string)), &d), file)
				found[file] = d
			}
		}
	}
	require.ElementsMatch(t, []string{"kyma-pull-fleet.json", "kyma-pull-publisher.json", "kyma-pull-agent.json"},
		slices.Collect(maps.Keys(found)))
	return found
}

// rules returns the rendered alerts by chart.
func rules(t *testing.T) map[string][]alerts.Alert {
	t.Helper()
	found := map[string][]alerts.Alert{}
	for name, r := range cases(t) {
		chart := filepath.Base(r.Dir)
		text := render(t, r).Templates["prometheusrule.yaml"]
		if !strings.HasSuffix(name, "-full") {
			require.Empty(t, text, "%s has alerts that were not requested", name)
			continue
		}
		var installed struct{ Spec any }
		require.NoError(t, yaml.Unmarshal([]byte(text), &installed))
		source, err := os.ReadFile(alerts.File(root, chart))
		require.NoError(t, err)
		var want any
		require.NoError(t, yaml.Unmarshal(source, &want))
		// With the ServiceMonitor, absent() selects the series of the release.
		data, err := yaml.Marshal(installed.Spec)
		require.NoError(t, err)
		data = regexp.MustCompile(`(absent\(\w+)\{[^}]*\}`).ReplaceAll(data, []byte("$1"))
		var got any
		require.NoError(t, yaml.Unmarshal(data, &got))
		require.Equal(t, want, got)
		require.Contains(t, text, "release: prometheus")
		found[chart], err = alerts.Read(alerts.File(root, chart))
		require.NoError(t, err)
	}
	require.Len(t, found, 2)
	return found
}

// metricNames matches metrics from the project and from its libraries.
var metricNames = regexp.MustCompile(`\b(kyma_pull|process|go|workqueue|controller_runtime|rest_client)_[a-z0-9_]+\b`)

// documented returns the metric names on the reference page.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	require.NoError(t, err)
	names := map[string]bool{"process_resident_memory_bytes": true}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)(?:\\{[^`]*)?` \\| ([A-Za-z0-9]+)").
		FindAllStringSubmatch(string(text), -1) {
		names[row[1]] = true
		if row[2] == "histogram" {
			names[row[1]+"_bucket"], names[row[1]+"_sum"], names[row[1]+"_count"] = true, true, true
		}
	}
	require.Greater(t, len(names), 40)
	return names
}

// labelsOf returns each metric's labels on the reference page.
func labelsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	require.NoError(t, err)
	found := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(kyma_pull_[a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]*)\\|").
		FindAllStringSubmatch(string(text), -1) {
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return strings.ContainsRune(" `,", r) })
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			found[row[1]+suffix] = labels
		}
		require.NotContains(t, labels, "runtime", row[1])
	}
	require.Greater(t, len(found), 40)
	return found
}

var (
	selectors = regexp.MustCompile(`\b(kyma_pull_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matchers  = regexp.MustCompile(`([a-zA-Z_]+)\s*[=!][=~]?\s*"`)
	groupings = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
	legends   = regexp.MustCompile(`\{\{\s*([a-zA-Z_]+)\s*\}\}`)
)

// unknownLabels returns the labels in a query or its legend that the queried metrics do not have.
func unknownLabels(expr, legend string, labels map[string][]string) []string {
	known := []string{"pod", "namespace", "job", "service", "instance", "container", "cluster", "le"}
	var strange, named []string
	ours := selectors.FindAllStringSubmatch(expr, -1)
	for _, s := range ours {
		for _, m := range matchers.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(labels[s[1]], m[1]) && !slices.Contains(known, m[1]) {
				strange = append(strange, s[1]+"{"+m[1]+"}")
			}
		}
	}
	if len(ours) == 0 {
		return nil // library metrics' labels are unknown
	}
	for _, s := range ours {
		known = append(known, labels[s[1]]...)
	}
	for _, g := range groupings.FindAllStringSubmatch(expr, -1) {
		named = append(named, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, l := range legends.FindAllStringSubmatch(legend, -1) {
		named = append(named, l[1])
	}
	for _, name := range named {
		if !slices.Contains(known, name) {
			strange = append(strange, name)
		}
	}
	return strange
}

func TestUnknownMetricLabelsAreReported(t *testing.T) {
	labels := map[string][]string{"kyma_pull_a": {"state"}, "kyma_pull_b_bucket": {"reason"}}
	for expr, want := range map[string][]string{
		`sum by (state) (kyma_pull_a{state!="Ready",pod="x"})`: nil,
		`kyma_pull_a{reason=~"x"}`:                             {"kyma_pull_a{reason}"},
		`sum by (le, state) (rate(kyma_pull_b_bucket[5m]))`:    {"state"},
		`sum by (code) (rest_client_requests_total)`:           nil,
	} {
		require.Equal(t, want, unknownLabels(expr, "", labels), expr)
	}
	require.Equal(t, []string{"wave"}, unknownLabels("kyma_pull_a", "{{state}} {{ wave }}", labels))
}

func TestDashboardsAndAlertsQueryExistingMetrics(t *testing.T) {
	known, labels := documented(t), labelsOf(t)
	var all []string
	check := func(where, expr string) {
		all = append(all, expr)
		names := metricNames.FindAllString(expr, -1)
		require.NotEmpty(t, names, "%s: %s", where, expr)
		for _, name := range names {
			require.True(t, known[name], "%s queries metric %s, which docs/reference/metrics.md does not list", where,
				name)
		}
	}
	for file, d := range dashboards(t) {
		require.NotEmpty(t, d.UID, file)
		require.Equal(t, "datasource", d.Templating.List[0].Type, file)
		for _, p := range d.Panels {
			require.Equal(t, "${datasource}", p.Datasource.UID, "%s: %s", file, p.Title)
			for _, target := range p.Targets {
				check(file+": "+p.Title, target.Expr)
				require.Empty(t, unknownLabels(target.Expr, target.LegendFormat, labels),
					"%s: panel %s: unknown labels in query %s", file, p.Title, target.Expr)
				if strings.Contains(target.Expr, "_seconds") && !strings.Contains(target.Expr, "_count[") {
					require.Equal(t, "s", p.FieldConfig.Defaults.Unit,
						"%s: panel %s shows a time, so its unit must be seconds", file, p.Title)
				}
			}
		}
	}
	for _, of := range rules(t) {
		for _, a := range of {
			check(a.Alert, a.Expr)
			require.Empty(t,
				unknownLabels(a.Expr,
					strings.ReplaceAll(a.Annotations["description"]+a.Annotations["summary"], "$labels.", ""), labels),
				a.Alert)
		}
	}
	// Prometheus' own parser must accept all queries.
	var text strings.Builder
	text.WriteString("groups:\n- name: all\n  rules:\n")
	for i, expr := range all {
		expr = strings.NewReplacer("$__rate_interval", "5m", "\n", " ").Replace(expr)
		fmt.Fprintf(&text, "  - record: test:%d\n    expr: >-\n      %s\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	require.NoError(t, alerts.Promtool(t.Context(), "check", "rules", file))
}

func TestEveryAlertHasARunbook(t *testing.T) {
	const book = "https://github.com/kyma-pull/kyma-pull/blob/main/docs/runbooks/alerts.md#"
	text, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", "alerts.md"))
	require.NoError(t, err)
	var sections, want []string
	for _, heading := range regexp.MustCompile(`(?m)^## (KymaPull\w+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, heading[1])
	}
	for _, of := range rules(t) {
		for _, a := range of {
			want = append(want, a.Alert)
			require.Equal(t, book+strings.ToLower(a.Alert), a.Annotations["runbook_url"])
			require.NotEmpty(t, a.Annotations["summary"], a.Alert)
			require.NotEmpty(t, a.Annotations["description"], a.Alert)
			require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
			require.NotEmpty(t, a.For, a.Alert)
		}
	}
	require.ElementsMatch(t, want, sections)
}

const (
	ofPublisher = "kyma_pull_publisher_"
	ofAgent     = "kyma_pull_agent_"
)

// replace returns a copy of the healthy series with different values for some of them. The argument others alternates
// between a series name and its new value.
func replace(healthy map[string]string, others ...string) map[string]string {
	series := maps.Clone(healthy)
	for i := 0; i < len(others); i += 2 {
		series[others[i]] = others[i+1]
	}
	return series
}

func TestAlertsFireOnlyForTheirCause(t *testing.T) {
	healthy := map[string]string{
		ofPublisher + `keys_accepted{pod="one"}`: "1x300", ofPublisher + `registry_up{pod="one"}`: "1x300",
		ofPublisher + `root_expiry_timestamp_seconds{pod="one"}`:                                     "8640000x300",
		ofPublisher + `git_ready{pod="one"}`:                                                         "1x300",
		ofPublisher + `runtime_health{pod="one",health="Healthy"}`:                                   "97x300",
		ofPublisher + `runtime_health{pod="one",health="Failing"}`:                                   "0x300",
		ofPublisher + `runtime_health{pod="one",health="Silent"}`:                                    "0x300",
		ofPublisher + `runtime_health{pod="one",health="Behind"}`:                                    "3x300",
		ofPublisher + `bundles_refused_total{pod="one",reason="BadSignature"}`:                       "0x300",
		ofPublisher + `bundles_refused_total{pod="two",reason="BadSignature"}`:                       "0x300",
		ofPublisher + `rollouts{pod="one",state="Progressing"}`:                                      "1x300",
		ofPublisher + `publish_pending{pod="one"}`:                                                   "0x300",
		ofPublisher + `registry_request_duration_seconds_count{pod="one",method="GET",code="2xx"}`:   "0+100x300",
		ofPublisher + `registry_request_duration_seconds_count{pod="one",method="GET",code="error"}`: "0+1x300",
	}
	standby := map[string]string{
		ofPublisher + `publish_failures_total{pod="two"}`:                      "0x300",
		ofPublisher + `bundles_refused_total{pod="two",reason="BadSignature"}`: "0x300",
	}
	publisher := []alerts.Case{
		{Name: "publisher and fleet are healthy", Series: healthy, At: 4 * time.Hour},
		{
			Name:   "only a standby publisher is left",
			Series: standby,
			At:     20 * time.Minute,
			Firing: []string{"KymaPullNoPublisher"},
		},
		{Name: "Git is not configured", Series: replace(healthy, ofPublisher+`git_ready{pod="one"}`, "_x300"), At: time.Hour},
		{
			Name:   "the registry is down",
			Series: replace(healthy, ofPublisher+`registry_up{pod="one"}`, "1x10 0x100"),
			At:     20 * time.Minute,
			Firing: []string{"KymaPullRegistryDown"},
		},
		{
			Name: "the publisher restarted while the registry is down",
			Series: replace(replace(healthy, ofPublisher+`registry_up{pod="one"}`, "0x300"),
				ofPublisher+`keys_accepted{pod="one"}`, "_x300"),
			At:     20 * time.Minute,
			Firing: []string{"KymaPullRegistryDown"},
		},
		{
			Name:   "registry outage is short",
			Series: replace(healthy, ofPublisher+`registry_up{pod="one"}`, "1x10 0x2 1x100"),
			At:     20 * time.Minute,
		},
		{
			Name:   "the root expires",
			Series: replace(healthy, ofPublisher+`root_expiry_timestamp_seconds{pod="one"}`, "2000000x300"),
			At:     2 * time.Hour,
			Firing: []string{"KymaPullRootExpires"},
		},
		{
			Name:   "keys are rejected",
			Series: replace(healthy, ofPublisher+`keys_accepted{pod="one"}`, "1x10 0x100"),
			At:     20 * time.Minute,
			Firing: []string{"KymaPullKeysRefused"},
		},
		{
			Name:   "a runtime fails",
			Series: replace(healthy, ofPublisher+`runtime_health{pod="one",health="Failing"}`, "0x10 1x100"),
			At:     30 * time.Minute,
			Firing: []string{"KymaPullRuntimesFailing"},
		},
		{
			Name: "runtimes of two shards fail",
			Series: replace(healthy, ofPublisher+`runtime_health{pod="one",health="Failing"}`, "1x100",
				ofPublisher+`runtime_health{pod="two",health="Failing"}`, "1x100"),
			At:     30 * time.Minute,
			Firing: []string{"KymaPullRuntimesFailing"},
		},
		{
			Name: "the leader changes while a runtime fails",
			Series: replace(healthy, ofPublisher+`runtime_health{pod="one",health="Failing"}`, "1x9 _x100",
				ofPublisher+`runtime_health{pod="two",health="Failing"}`, "_x9 1x100"),
			At:     18 * time.Minute,
			Firing: []string{"KymaPullRuntimesFailing"},
		},
		{
			Name:   "a runtime is silent",
			Series: replace(healthy, ofPublisher+`runtime_health{pod="one",health="Silent"}`, "0x10 1x100"),
			At:     30 * time.Minute,
			Firing: []string{"KymaPullRuntimesSilent"},
		},
		{
			Name:   "a runtime never reports",
			Series: replace(healthy, ofPublisher+`runtime_health{pod="one",health="NeverReported"}`, "0x10 1x200"),
			At:     90 * time.Minute,
			Firing: []string{"KymaPullRuntimesNeverReported"},
		},
		{
			Name: "two publishers count a Kyma that neither selects",
			Series: replace(healthy, ofPublisher+`unreconciled_runtimes{pod="one",job="one",health="NeverReported"}`, "1x200",
				ofPublisher+`unreconciled_runtimes{pod="two",job="two",health="NeverReported"}`, "1x200"),
			At:     90 * time.Minute,
			Firing: []string{"KymaPullRuntimesUnreconciled"},
		},
		{
			Name: "all Kymas are selected",
			Series: replace(healthy, ofPublisher+`unreconciled_runtimes{pod="one",health="NeverReported"}`, "0x200",
				ofPublisher+`unreconciled_runtimes{pod="one",health="Silent"}`, "0x200"),
			At: 90 * time.Minute,
		},
		{
			Name:   "a bundle is refused",
			Series: replace(healthy, ofPublisher+`bundles_refused_total{pod="one",reason="BadSignature"}`, "0x10 1x100"),
			At:     12 * time.Minute,
			Firing: []string{"KymaPullBundlesRefused"},
		},
		{
			Name:   "bundle refusal is long past",
			Series: replace(healthy, ofPublisher+`bundles_refused_total{pod="one",reason="BadSignature"}`, "0x10 1x100"),
			At:     80 * time.Minute,
		},
		{
			Name:   "a rollout stopped",
			Series: replace(healthy, ofPublisher+`rollouts{pod="one",state="Stopped"}`, "_x10 1x100"),
			At:     20 * time.Minute,
			Firing: []string{"KymaPullRolloutStopped"},
		},
		{
			Name:   "a check failed",
			Series: replace(healthy, ofPublisher+`check_results{pod="one",check="latency",result="Failed"}`, "0x10 1x100"),
			At:     20 * time.Minute, Firing: []string{"KymaPullChecksFailed"},
		},
		{
			Name: "release train is blocked",
			Series: replace(healthy, ofPublisher+`train_versions{pod="one",policy="weekly",reason="TooManyFailures"}`,
				"0x10 1x200"),
			At: 90 * time.Minute, Firing: []string{"KymaPullTrainBlocked"},
		},
		{
			Name: "release train waits for its schedule",
			Series: replace(healthy, ofPublisher+`train_versions{pod="one",policy="weekly",reason="TimeNotReached"}`,
				"1x200"),
			At: 90 * time.Minute,
		},
		{
			Name:   "runtime waits for its bundle",
			Series: replace(healthy, ofPublisher+`publish_pending_since_timestamp_seconds{pod="one"}`, "_x10 600x100"),
			At:     40 * time.Minute,
			Firing: []string{"KymaPullPublishStuck"},
		},
		{
			Name:   "commit is partially applied",
			Series: replace(healthy, ofPublisher+`git_held{pod="one"}`, "0x10 1x100"),
			At:     30 * time.Minute,
			Firing: []string{"KymaPullCommitHolds"},
		},
		{
			Name:   "Git cannot be read",
			Series: replace(healthy, ofPublisher+`git_ready{pod="one"}`, "1x10 0x100"),
			At:     30 * time.Minute,
			Firing: []string{"KymaPullGitNotFollowed"},
		},
	}
	runs := map[string]string{
		ofAgent + `last_poll_timestamp_seconds`: "0+60x300", ofAgent + `bundle_expiry_timestamp_seconds`: "604800x300",
		ofAgent + `bundles_refused_total{reason="Expired"}`: "0x300",
		ofAgent + `modules{module="keda",state="Ready"}`:    "1x300",
	}
	agent := []alerts.Case{
		{Name: "agent is healthy", Series: runs, At: 4 * time.Hour},
		{Name: "agent never polled", Series: map[string]string{ofAgent + `poll_failures_total`: "0+1x300"}, At: time.Hour},
		{
			Name:   "agent cannot poll",
			Series: replace(runs, ofAgent+`last_poll_timestamp_seconds`, "0+60x10 600x300"),
			At:     time.Hour,
			Firing: []string{"KymaPullAgentNotPolling"},
		},
		{
			Name:   "bundle expires",
			Series: replace(runs, ofAgent+`bundle_expiry_timestamp_seconds`, "86400x300"),
			At:     time.Hour,
			Firing: []string{"KymaPullAgentBundleExpires"},
		},
	}
	for chart, cases := range map[string][]alerts.Case{"kcp-publisher": publisher, "skr-agent": agent} {
		file := alerts.File(root, chart)
		all, err := alerts.Read(file)
		require.NoError(t, err)
		fired := map[string]bool{}
		for _, c := range cases {
			for _, name := range c.Firing {
				fired[name] = true
			}
		}
		require.Equal(t, alerts.Names(all), slices.Sorted(maps.Keys(fired)), "each alert must fire in one case")
		require.NoError(t, alerts.Check(t.Context(), t.TempDir(), file, cases))
	}
}
