package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func sizes(context.Context) ([]result, error) {
	binaries, err := fleet.Build()
	if err != nil {
		return nil, err
	}
	var results []result
	for _, path := range []string{binaries.Publisher, binaries.Agent} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		results = append(results, result{
			what: "size of " + info.Name(), figure: fmt.Sprintf("%.1f MiB", float64(info.Size())/(1<<20)),
		})
	}
	return results, nil
}

// measureSigning measures how long it takes a publisher to sign a bundle and an agent to verify it.
func measureSigning(ctx context.Context) ([]result, error) {
	sign, err := measureOne(ctx, signBundle)
	if err != nil {
		return nil, err
	}
	verify, err := measureEach(ctx, verifyBundle)
	if err != nil {
		return nil, err
	}
	root, err := measureOne(ctx, nextRoot)
	if err != nil {
		return nil, err
	}
	return []result{
		{"publisher signs a bundle", sign.Round(time.Microsecond).String(), ""},
		{"agent verifies and reads a bundle of 20 modules", verify["20"].Round(time.Microsecond).String(), "below 5ms"},
		{"agent verifies and reads a bundle of 500 modules", verify["500"].Round(time.Microsecond).String(), ""},
		{"agent follows the root of trust by one version", root.Round(time.Microsecond).String(), ""},
	}, nil
}

// measureResolving measures the resolution of Kymas. It runs the benchmark of package resolve with `go test`, because
// the package is internal.
func measureResolving(ctx context.Context) ([]result, error) {
	took, err := measureOne(ctx, resolveFleet)
	if err != nil {
		return nil, err
	}
	read, err := measureOne(ctx, readDescriptor)
	if err != nil {
		return nil, err
	}
	counted, err := measureOne(ctx, rolloutMembers)
	if err != nil {
		return nil, err
	}
	planned, err := measureOne(ctx, rolloutStep)
	if err != nil {
		return nil, err
	}
	return []result{
		{"plan one step of 50 rollouts for 10,000 runtimes each", planned.Round(time.Millisecond).String(), ""},
		{"derive the runtimes of each rollout from 10,000 Kymas", counted.Round(time.Millisecond).String(), ""},
		{"resolve 10,000 Kymas with 20 modules each", took.Round(time.Millisecond).String(), ""},
		{"read a component's descriptor from a registry", read.Round(time.Microsecond).String(), ""},
	}, nil
}

// measureRendering compares the agent and Helm's engine for a chart with 1,000 objects.
func measureRendering(ctx context.Context) ([]result, error) {
	took, err := measureEach(ctx, renderChart)
	if err != nil {
		return nil, err
	}
	ratio := func(name string) string {
		return fmt.Sprintf("%s, %.2f times", took[name].Round(time.Millisecond),
			float64(took[name])/float64(took["helm"]))
	}
	return []result{
		{"Helm's engine renders 1,000 objects to text", took["helm"].Round(time.Millisecond).String(), ""},
		{"agent renders 1,000 objects and checks them", ratio("render"), ""},
		{"agent renders 1,000 objects in a separate process", ratio("confined"), ""},
	}, nil
}
