package chart

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/integration/alerts"
)

func TestMissingPublisherFiresDespiteOtherReleases(t *testing.T) {
	r := release(t, "kcp-publisher", map[string]any{
		"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"},
		"metrics": map[string]any{
			"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true},
		},
	})
	r.Name, r.Namespace = "second", "kcp-b"
	const service = "second-kcp-publisher-metrics"
	var names []string
	for _, o := range objectsOf(t, r) {
		if o.GetKind() == "Service" {
			names = append(names, o.GetName())
		}
	}
	require.Equal(t, []string{service}, names)
	var installed struct{ Spec any }
	require.NoError(t, yaml.Unmarshal([]byte(render(t, r).Templates["prometheusrule.yaml"]), &installed))
	data, err := yaml.Marshal(installed.Spec)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))

	series := func(namespace, service string) map[string]string {
		return map[string]string{
			ofPublisher + `root_expiry_timestamp_seconds{namespace="` + namespace + `",service="` + service + `"}`: "8640000x60",
		}
	}
	missing := []string{"KymaPullNoPublisher"}
	require.NoError(t, alerts.Check(t.Context(), t.TempDir(), file, []alerts.Case{
		{Name: "the publisher runs", Series: series("kcp-b", service), At: 20 * time.Minute},
		{
			Name: "only a publisher in another namespace runs", Series: series("kcp-a", service),
			At: 20 * time.Minute, Firing: missing,
		},
		{
			Name: "only another publisher in the namespace runs", Series: series("kcp-b", "first-kcp-publisher-metrics"),
			At: 20 * time.Minute, Firing: missing,
		},
	}))
}

// Without the chart's ServiceMonitor, the labels of the series are unknown.
func TestAbsentAlertHasNoLabelsWithoutServiceMonitor(t *testing.T) {
	r := release(t, "kcp-publisher", map[string]any{
		"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"},
		"metrics": map[string]any{"prometheusRule": map[string]any{"enabled": true}},
	})
	require.Contains(t, render(t, r).Templates["prometheusrule.yaml"],
		"absent(kyma_pull_publisher_root_expiry_timestamp_seconds)\n")
}
