package assets

import (
	"context"
	"fmt"
	"io"
)

// promtoolVersion is the version of Prometheus that hack/promtool/go.mod pins.
const promtoolVersion = "v0.316.0"

// EnsurePromtool returns the path of promtool, which tests alerts. If promtool is missing in the cache, EnsurePromtool
// first builds it, which takes three minutes of CPU time.
func EnsurePromtool(ctx context.Context, progress io.Writer) (string, error) {
	p := program{
		name: "promtool", module: "promtool", pkg: "github.com/prometheus/prometheus/cmd/promtool",
		tags: "remove_all_sd",
	}
	path, err := ensureOne(ctx, p, "promtool-"+promtoolVersion, progress)
	if err != nil {
		return "", fmt.Errorf("build promtool %s: %w", promtoolVersion, err)
	}
	return path, nil
}
