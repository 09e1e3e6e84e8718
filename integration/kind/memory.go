package kind

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// Memory is the memory of one container in bytes. WorkingSet excludes reclaimable file pages, as the kubelet's metric
// does. Peak is the maximum usage including these pages.
type Memory struct{ WorkingSet, Peak, Limit int64 }

// Memory reads the memory usage of a program's running containers from their cgroups.
func (g *Environment) Memory(ctx context.Context, program fleet.Program) ([]Memory, error) {
	p, err := inPod(program)
	if err != nil {
		return nil, err
	}
	containers, err := p.runningContainers(ctx)
	if err != nil {
		return nil, err
	}
	var all []Memory
	for _, container := range containers {
		output, err := p.cluster.inNode(ctx, "sh", "-c", memoryScript, "sh", container)
		if err != nil {
			return nil, err
		}
		m, err := parseMemory(output)
		if err != nil {
			return nil, fmt.Errorf("container %s of %s: %w", container, p.deployment, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// memoryScript prints the memory usage, peak usage, limit and inactive file pages of a container, from cgroup v1 or
// v2.
//
// Source: Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst; the kubelet uses cAdvisor's working
// set.
const memoryScript = `set -e
pid=$(crictl inspect --output go-template --template '{{.info.pid}}' "$1")
path=$(sed -n 's/^[0-9]*:memory://p' /proc/$pid/cgroup)
if [ -n "$path" ]; then
  cd "/sys/fs/cgroup/memory$path"
  cat memory.usage_in_bytes memory.max_usage_in_bytes memory.limit_in_bytes
  sed -n 's/^total_inactive_file //p' memory.stat
else
  cd "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$pid/cgroup)"
  cat memory.current memory.peak memory.max
  sed -n 's/^inactive_file //p' memory.stat
fi`

func parseMemory(output string) (Memory, error) {
	fields := strings.Fields(output)
	if len(fields) != 4 {
		return Memory{}, fmt.Errorf("expected current, peak, max and inactive_file, got %q", output)
	}
	var bytes [4]int64
	for i, field := range fields {
		var err error
		if bytes[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return Memory{}, fmt.Errorf("expected current, peak, max and inactive_file, got %q", output)
		}
	}
	return Memory{WorkingSet: max(bytes[0]-bytes[3], 0), Peak: bytes[1], Limit: bytes[2]}, nil
}
