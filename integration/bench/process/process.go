// Package process reads the CPU and memory usage of processes from the kernel, for benchmarks.
package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the total CPU and memory usage of several processes. Memory is in bytes.
type Usage struct {
	// CPU is the CPU time of the processes. Children is the CPU time of their terminated children.
	CPU, Children time.Duration
	// Resident is the resident memory: the sum of Anonymous and File. Peak is the maximum of Resident since the start
	// of the process or the last ResetPeak.
	Resident, Anonymous, File, Peak int64
}

// ticksPerSecond is USER_HZ, which is 100 on all architectures that Go supports.
const ticksPerSecond = 100

// UsageOf returns the total usage of processes.
func UsageOf(pids ...int) (Usage, error) {
	var all Usage
	for _, pid := range pids {
		own, children, err := cpuOf(pid)
		if err != nil {
			return all, err
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return all, err
		}
		all.CPU, all.Children = all.CPU+own, all.Children+children
		all.Resident += kibibytes(status, "VmRSS")
		all.Anonymous += kibibytes(status, "RssAnon")
		all.File += kibibytes(status, "RssFile") + kibibytes(status, "RssShmem") // RssShmem counts files in /dev/shm
		all.Peak += kibibytes(status, "VmHWM")
	}
	return all, nil
}

func cpuOf(pid int) (own, children time.Duration, err error) {
	_, fields, err := statOf(pid)
	if err != nil {
		return 0, 0, err
	}
	// Fields 12 to 15 after the name are the user and system time of the process and of its children.
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	var spent [4]time.Duration
	for i, field := range fields[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		spent[i] = time.Duration(n) * time.Second / ticksPerSecond
	}
	return spent[0] + spent[1], spent[2] + spent[3], nil
}

// statOf returns a process's name and the fields after it in /proc/PID/stat.
func statOf(pid int) (name string, fields []string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil, err
	}
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return "", nil, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	return string(stat[from+1 : to]), strings.Fields(string(stat[to+1:])), nil
}

// kibibytes returns a value of /proc/PID/status in bytes, or 0 if it is missing.
func kibibytes(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
	var n int64
	_, _ = fmt.Sscanf(string(rest), "%d kB", &n)
	return n << 10
}

// ResetPeak resets the kernel's record of a process's peak memory, so that Peak counts from now on.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// MachineCPU returns the machine's busy CPU time since its start, or 0 if it is unknown.
func MachineCPU() time.Duration {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var ticks int64
	for i, field := range strings.Fields(string(line)) {
		// The fields are: cpu user nice system idle iowait irq softirq. Omit idle and iowait.
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != 4 && i != 5 && i <= 7 {
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// OthersCPU returns the machine's busy CPU time since its start, without the CPU time of this process and its children.
func OthersCPU() time.Duration {
	others := MachineCPU()
	for _, pid := range append(children(), os.Getpid()) {
		// The CPU time of a child that has just ended cannot be read. The kernel includes it in the CPU time of this
		// process's children.
		if own, waited, err := cpuOf(pid); err == nil {
			others -= own + waited
		}
	}
	return others
}

// children returns the process IDs of this process's running children.
func children() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		_, fields, err := statOf(pid)
		// statOf returns an error if the process has just ended.
		if err == nil && len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Child returns the process ID of a child of this process. The child has the given name. If argument is not empty, the
// child's command line also contains this argument.
func Child(name, argument string) (int, error) {
	for _, pid := range children() {
		called, _, err := statOf(pid)
		if err != nil || called != name {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && (argument == "" || bytes.Contains(line, []byte("\x00"+argument+"\x00"))) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no child process %s %s is running", name, argument)
}

// LoadAverage returns the machine's one-minute load average.
func LoadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return load
}
