package render

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel end the child when the agent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// peakBytes is how much memory a process that has ended had at most.
func peakBytes(child *os.ProcessState) int64 {
	usage, ok := child.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}

// giveUp limits this process for good.
func giveUp(l limits) error {
	used := dataBytes()
	// When a node runs out of memory, let it be this process and not the agent. Kernels may not allow it; then it is not
	// so.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for _, one := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, used + uint64(l.MemoryBytes+l.MemoryBytes/hardShare)},
		{unix.RLIMIT_CPU, l.CPUSeconds},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
		// No new descriptor means no file, no socket and no program: those that there are were opened before.
		{unix.RLIMIT_NOFILE, 0},
	} {
		if err := unix.Setrlimit(one.resource, &unix.Rlimit{Cur: one.most, Max: one.most}); err != nil {
			return err
		}
	}
	return nil
}

// dataBytes is what the kernel counts against RLIMIT_DATA already: 0 when it does not say.
func dataBytes() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmData:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kibibytes, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kibibytes << 10
}
