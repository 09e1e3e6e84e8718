package assets

import (
	"context"
	"fmt"
	"io"
)

// prometheusVersion is the version of Prometheus that hack/promtool/go.mod pins.
const prometheusVersion = "v0.316.0"

// EnsurePromtool returns the path of promtool, which tests alerts. If promtool is missing in the cache, EnsurePromtool
// first builds it, which takes three CPU minutes.
func EnsurePromtool(ctx context.Context, progress io.Writer) (string, error) {
	return ensurePrometheus(ctx, "promtool", progress)
}

// EnsurePrometheus returns the path to Prometheus, which module checks query. If Prometheus is missing in the cache,
// EnsurePrometheus first builds it without its web pages, which takes four CPU minutes.
func EnsurePrometheus(ctx context.Context, progress io.Writer) (string, error) {
	return ensurePrometheus(ctx, "prometheus", progress)
}

func ensurePrometheus(ctx context.Context, name string, progress io.Writer) (string, error) {
	p := program{
		name: name, module: "promtool", pkg: "github.com/prometheus/prometheus/cmd/" + name, tags: "remove_all_sd",
	}
	path, err := ensureOne(ctx, p, name+"-"+prometheusVersion, progress)
	if err != nil {
		return "", fmt.Errorf("build %s %s: %w", name, prometheusVersion, err)
	}
	return path, nil
}
