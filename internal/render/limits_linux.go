package render

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent returns attributes that make the kernel kill the child when the agent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// peakBytes returns an ended process's peak memory usage.
func peakBytes(child *os.ProcessState) int64 {
	usage, ok := child.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}

// restrictProcess limits this process permanently.
func restrictProcess(l limits) error {
	used := dataBytes()
	// If a node runs out of memory, the kernel should kill this process instead of the agent. The error is ignored
	// because some kernels do not allow this setting.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for _, one := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, used + uint64(l.MemoryBytes+l.MemoryBytes/hardShare)},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
		// Without new file descriptors, the process cannot open files and sockets. Open descriptors such as stdout stay
		// valid.
		{unix.RLIMIT_NOFILE, 0},
	} {
		if err := unix.Setrlimit(one.resource, &unix.Rlimit{Cur: one.most, Max: one.most}); err != nil {
			return err
		}
	}
	exitAtLimit()
	// If the process does not exit at the soft limit (Cur), the kernel kills it at the hard limit (Max).
	return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: l.CPUSeconds, Max: l.CPUSeconds + 1})
}

// exitAtLimit ends the process with exitCPUTime when it reaches its CPU time limit. Otherwise, the kernel would kill
// the process, and the parent process could mistake this for an out-of-memory kill, because the kernel's limit and the
// recorded time can differ.
func exitAtLimit() {
	reached := make(chan os.Signal, 1)
	signal.Notify(reached, unix.SIGXCPU)
	go func() {
		<-reached
		os.Exit(exitCPUTime)
	}()
}

// dataBytes returns this process's memory that counts toward RLIMIT_DATA, or 0 if it is unknown.
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
