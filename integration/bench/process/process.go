// Package process reads the usage of this machine's processes from the kernel, and finds the children of this process.
// Benchmarks read it before and after a measurement.
package process

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the kernel's count for processes.
type Usage struct {
	// CPU is the CPU time of the processes, and Children is the CPU time of the children that they have waited for.
	CPU, Children time.Duration
	// Resident memory is Anonymous and File together, and Peak the most there was of it since the process started or
	// since ResetPeak.
	Resident, Anonymous, File, Peak int64
}

// ticksPerSecond is USER_HZ, which is the same on every architecture that Go runs on.
const ticksPerSecond = 100

// UsageOf adds up processes.
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
		all.File += kibibytes(status, "RssFile") + kibibytes(status, "RssShmem") // a program in /dev/shm is the latter
		all.Peak += kibibytes(status, "VmHWM")
	}
	return all, nil
}

func cpuOf(pid int) (own, children time.Duration, err error) {
	_, fields, err := statOf(pid)
	if err != nil {
		return 0, 0, err
	}
	// Behind the name the 12th to 15th are user and system time of the process and of its children.
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
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

// statOf returns a process's name, which can contain any character, and the fields after it.
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

// kibibytes is a figure in bytes that a status gives in kB, 0 where it has none, as of a process that is ending.
func kibibytes(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
	var n int64
	_, _ = fmt.Sscanf(string(rest), "%d kB", &n)
	return n << 10
}

// ResetPeak lets the kernel count the peak of resident memory from now on.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// MachineCPU is the time that the whole machine has worked since it started, 0 where that cannot be read.
func MachineCPU() time.Duration {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var ticks int64
	for i, field := range strings.Fields(string(line)) {
		// cpu user nice system idle iowait irq softirq
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != 4 && i != 5 && i <= 7 {
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// OthersCPU is the part of MachineCPU that is not of this process or of a child of its.
func OthersCPU() time.Duration {
	others := MachineCPU()
	for _, pid := range append(children(), os.Getpid()) {
		if own, waited, err := cpuOf(pid); err == nil { // one that has just ended is in the time of this process
			others -= own + waited
		}
	}
	return others
}

// children returns the pids of this process's running child processes.
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
		// else it has just ended
		if err == nil && len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Child returns this process's child with a name and, if it is not empty, an argument.
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
	return 0, fmt.Errorf("no child %s %s runs", name, argument)
}

// LoadAverage is the machine's of the last minute.
func LoadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

// FreeAddress is one of this machine that no process listens on now.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
