package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/alerts"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// The test evaluates the charts' Prometheus rules with the programs' metrics.
func TestTamperedBundleRaisesAlertAndStandbyDoesNot(t *testing.T) {
	ctx, root := t.Context(), filepath.Join("..", "..")
	publisher, standby, agent := freeAddress(t), freeAddress(t), freeAddress(t)
	f := newFleet(t, fleet.Options{
		LeaderElect: true,
		PublisherFlags: []string{
			"--metrics-bind-address", publisher, "--metrics-auth=false", "--set", "report-poll-interval=300ms",
		},
		AgentFlags: []string{"--metrics-bind-address", agent},
	})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	startCandidate(t, f, "standby", "--metrics-bind-address", standby, "--metrics-auth=false").untilLogged(t, "starting")
	has := func(address, series string, value float64) map[string]float64 {
		t.Helper()
		var found map[string]float64
		until(t, 40*time.Second, fmt.Sprintf("%s is %g", series, value), func() (bool, string) {
			text := scraped(t, address, "")
			var err error
			found, err = alerts.Scraped(strings.NewReader(text))
			must(t, err)
			return found[series] == value, text[strings.Index(text, "kyma_pull_"):]
		})
		return found
	}
	const ofPublisher, ofAgent = "kyma_pull_publisher_", "kyma_pull_agent_"
	before := has(publisher, ofPublisher+`runtime_health{health="Healthy"}`, 1)
	beside := has(standby, ofPublisher+`publish_failures_total`, 0)
	runs := has(agent, ofAgent+`modules{module="scaler", state="Ready"}`, 1)
	for series, least := range map[string]float64{
		ofPublisher + `module_versions{module="scaler", state="Ready", version="1.7.0"}`:   1,
		ofPublisher + `publish_to_applied_seconds_count`:                                   1,
		ofPublisher + `keys_accepted`:                                                      1,
		ofPublisher + `registry_up`:                                                        1,
		ofPublisher + `root_expiry_timestamp_seconds`:                                      1e9,
		ofPublisher + `oldest_report_timestamp_seconds`:                                    1e9,
		ofPublisher + `registry_request_duration_seconds_count{code="2xx", method="HEAD"}`: 1,
	} {
		if before[series] < least {
			t.Errorf("metric %s is %g, want at least %g", series, before[series], least)
		}
	}
	for _, series := range []string{"last_poll_timestamp_seconds", "bundle_expiry_timestamp_seconds",
		"root_expiry_timestamp_seconds"} {
		if runs[ofAgent+series] < 1e9 {
			t.Errorf("the agent's metric %s is %g, want at least 1e9", series, runs[ofAgent+series])
		}
	}
	reference, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	must(t, err)
	known, gauges := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z]+) \\| [^|]* \\| leader \\|").
		FindAllStringSubmatch(string(reference), -1) {
		gauges[row[1]] = row[2] == "gauge"
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ").FindAllStringSubmatch(string(reference),
		-1) {
		known[row[1]] = true
	}
	for series := range before {
		name, _, _ := strings.Cut(series, "{")
		if !known[name] && !known[strings.NewReplacer("_bucket", "", "_sum", "", "_count", "").Replace(name)] {
			t.Errorf("%s is not in docs/reference/metrics.md", name)
		}
	}
	for series := range beside {
		if name, _, _ := strings.Cut(series, "{"); gauges[name] {
			t.Errorf("a standby publisher exports %s", series)
		}
	}
	if _, is := before[ofPublisher+"git_ready"]; is {
		t.Error("a publisher without Git exports metrics of Git")
	}

	tampered, err := r.Desired(ctx)
	must(t, err)
	must(t, r.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, flipped(t, tampered.Bytes))))
	after := has(publisher, ofPublisher+`bundles_refused_total{reason="BadSignature"}`, 1)
	refused := has(agent, ofAgent+`bundles_refused_total{reason="BadSignature"}`, 1)
	must(t, alerts.Check(ctx, t.TempDir(), alerts.File(root, "kcp-publisher"), []alerts.Case{
		{Name: "unchanged metrics", Series: alerts.Changing(before, before, 5), At: 8 * time.Minute},
		{Name: "standby", Series: alerts.Changing(beside, beside, 5), At: 8 * time.Minute},
		{
			Name: "refused bundle", Series: alerts.Changing(before, after, 5), At: 8 * time.Minute,
			Firing: []string{"KymaPullBundlesRefused"},
		},
	}))
	must(t, alerts.Check(ctx, t.TempDir(), alerts.File(root, "skr-agent"), []alerts.Case{
		{Name: "unchanged metrics", Series: alerts.Changing(runs, runs, 5), At: 8 * time.Minute},
		{Name: "refused bundle", Series: alerts.Changing(runs, refused, 5), At: 8 * time.Minute},
	}))
}

// flipped changes one character of the signed statement.
func flipped(t *testing.T, manifest []byte) []byte {
	t.Helper()
	var m ocispec.Manifest
	must(t, json.Unmarshal(manifest, &m))
	const field = `"payload":"`
	text := []byte(m.Annotations[bundle.AnnotationAttestation])
	at := strings.Index(string(text), field) + len(field) + 40
	if text[at]++; text[at] == 'z'+1 || text[at] == 'Z'+1 || text[at] == '9'+1 {
		text[at] = 'A'
	}
	m.Annotations[bundle.AnnotationAttestation] = string(text)
	data, err := json.Marshal(m)
	must(t, err)
	return data
}
