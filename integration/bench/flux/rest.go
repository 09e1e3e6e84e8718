package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
)

// cpuOf returns the CPU time of processes and their terminated children.
func cpuOf(pids ...int) (time.Duration, error) {
	used, err := process.UsageOf(pids...)
	return used.CPU + used.Children, err
}

// Programs are idle if they use at most restCPU of CPU time within restTime.
const (
	restTime = 4 * time.Second
	restCPU  = 60 * time.Millisecond
)

// untilRest waits until programs are idle. It returns the time when they became idle, and their CPU time until then.
func untilRest(ctx context.Context, limit time.Duration, pids ...int) (time.Time, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	used, err := cpuOf(pids...)
	if err != nil {
		return time.Time{}, 0, err
	}
	for since, at := time.Now(), used; ; {
		select {
		case <-ctx.Done():
			return since, at, fmt.Errorf("programs are not idle after %s", limit)
		case now := <-tick.C:
			used, err := cpuOf(pids...)
			if err != nil {
				return since, at, err
			}
			if used-at > restCPU {
				since, at = now, used
			}
			if now.Sub(since) >= restTime {
				return since, at, nil
			}
		}
	}
}
