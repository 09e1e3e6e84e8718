package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// goBenchmark names a Go benchmark as FOLDER.FUNCTION. Its package can be internal, because bench runs `go test`.
type goBenchmark string

const (
	signBundle     goBenchmark = "bundle.BenchmarkSign"
	verifyBundle   goBenchmark = "bundle.BenchmarkVerify"
	nextRoot       goBenchmark = "bundle.BenchmarkNextRoot"
	resolveFleet   goBenchmark = "kcp-publisher/internal/core/resolve.BenchmarkResolve10000Kymas20Modules"
	readDescriptor goBenchmark = "kcp-publisher/internal/components/component.BenchmarkDescriptor"
	rolloutMembers goBenchmark = "kcp-publisher/internal/core/plan.BenchmarkMembers"
	rolloutStep    goBenchmark = "kcp-publisher/internal/core/rollout.BenchmarkNextRound"
	renderChart    goBenchmark = "internal/render.BenchmarkChartWithThousandObjects"
)

// durations contains the -benchtime of each benchmark.
var durations = map[goBenchmark]string{
	signBundle: "1s", verifyBundle: "1s", nextRoot: "1s", resolveFleet: "1x", readDescriptor: "1s",
	rolloutMembers: "3x", rolloutStep: "3x", renderChart: "3s",
}

// parts returns the folder of the package and the name of the function.
func (b goBenchmark) parts() (folder, function string) {
	folder, function, _ = strings.Cut(string(b), ".")
	return folder, function
}

// measureOne returns the time per operation of a benchmark without sub-benchmarks.
func measureOne(ctx context.Context, b goBenchmark) (time.Duration, error) {
	found, err := measureEach(ctx, b)
	if err != nil {
		return 0, err
	}
	took, ok := found[""]
	if !ok {
		return 0, fmt.Errorf("%s has sub-benchmarks", b)
	}
	return took, nil
}

// measureEach returns the time per operation by sub-benchmark.
func measureEach(ctx context.Context, b goBenchmark) (map[string]time.Duration, error) {
	folder, function := b.parts()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+function+"$", "-benchtime", durations[b],
		"./"+folder)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	found := map[string]time.Duration{}
	for _, match := range regexp.MustCompile(`(?m)^Benchmark([^\s/]*)(?:/(\S*?))?(?:-\d+)?\s+\d+\s+(\d+) ns/op`).
		FindAllStringSubmatch(string(output), -1) {
		if found[match[2]], err = time.ParseDuration(match[3] + "ns"); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the output contains no benchmark result:\n%s", output)
	}
	return found, nil
}
