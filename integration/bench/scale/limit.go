package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// memoryLimit limits the memory of one program.
type memoryLimit struct {
	// mechanism names the mechanism that enforces the limit, for the table of results.
	mechanism string
	folder    string   // folder of the cgroup; empty if no cgroup is used
	open      *os.File // open file descriptor of folder
	bytes     int64
}

const cgroups = "/sys/fs/cgroup"

// newMemoryLimit creates a cgroup if possible. Otherwise, it uses the soft limit of the Go runtime.
func newMemoryLimit(bytes int64) *memoryLimit {
	l := &memoryLimit{
		mechanism: "GOMEMLIMIT, because no writable cgroup v2 has the memory controller: check the peak",
		bytes:     bytes,
	}
	folder := filepath.Join(cgroups, fmt.Sprintf("kyma-pull-bench-%d", os.Getpid()))
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err != nil || os.Mkdir(folder, 0o755) != nil {
		return l
	}
	limits := map[string]string{"memory.max": fmt.Sprint(bytes), "memory.swap.max": "0"}
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0); err != nil && name == "memory.max" {
			_ = os.Remove(folder)
			return l
		}
	}
	open, err := os.Open(folder)
	if err != nil {
		_ = os.Remove(folder)
		return l
	}
	l.mechanism, l.folder, l.open = "memory.max of a cgroup", folder, open
	return l
}

// apply adds the memory limit to a command.
func (l *memoryLimit) apply(cmd *exec.Cmd) {
	if l.open != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(l.open.Fd())
		return
	}
	cmd.Env = append(cmd.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", l.bytes/10*9))
}

// remove removes the cgroup after the limited program has ended.
func (l *memoryLimit) remove() error {
	if l.open == nil {
		return nil
	}
	return errors.Join(l.open.Close(), os.Remove(l.folder))
}
