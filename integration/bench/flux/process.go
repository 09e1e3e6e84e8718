package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what the kernel says of processes.
type usage struct {
	// CPU includes that of the children which they have waited for.
	CPU time.Duration
	// Anonymous and File are resident memory, Peak the most there ever was of both.
	Anonymous, File, Peak int64
}

// ticksPerSecond is USER_HZ, which is the same on every architecture that Go runs on.
const ticksPerSecond = 100

// usageOf adds up processes.
func usageOf(pids ...int) (usage, error) {
	var all usage
	for _, pid := range pids {
		cpu, err := cpuOf(pid)
		if err != nil {
			return all, err
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return all, err
		}
		all.CPU += cpu
		all.Anonymous += kibibytes(status, "RssAnon")
		all.File += kibibytes(status, "RssFile") + kibibytes(status, "RssShmem") // a program in /dev/shm is the latter
		all.Peak += kibibytes(status, "VmHWM")
	}
	return all, nil
}

func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; behind it the 12th to 15th are user and system time of the process and of its children.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	var ticks int64
	for _, field := range fields[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

func kibibytes(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
	var n int64
	_, _ = fmt.Sscanf(string(rest), "%d kB", &n) // a process that is ending has none
	return n << 10
}

// How it is told that programs have nothing left to do: they take no more than restCPU in restTime.
const (
	restTime = 4 * time.Second
	restCPU  = 60 * time.Millisecond
)

// untilRest waits until programs have nothing left to do, and returns since when, and the CPU time that they had used by then.
func untilRest(ctx context.Context, limit time.Duration, pids ...int) (time.Time, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	used, err := usageOf(pids...)
	if err != nil {
		return time.Time{}, 0, err
	}
	for since, at := time.Now(), used.CPU; ; {
		select {
		case <-ctx.Done():
			return since, at, fmt.Errorf("waited %s for programs to have nothing left to do", limit)
		case now := <-tick.C:
			used, err := usageOf(pids...)
			if err != nil {
				return since, at, err
			}
			if used.CPU-at > restCPU {
				since, at = now, used.CPU
			}
			if now.Sub(since) >= restTime {
				return since, at, nil
			}
		}
	}
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

// othersCPU is the CPU time that the machine has worked since it started for what is not this process or a child of its.
func othersCPU() time.Duration {
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
	others := time.Duration(ticks) * time.Second / ticksPerSecond
	for _, pid := range append(children(), os.Getpid()) {
		if own, err := cpuOf(pid); err == nil { // one that has just ended is in the time of this process
			others -= own
		}
	}
	return others
}

// children are this process's own.
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
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// child returns this process's child with a name and, if it is not empty, an argument.
func child(name, argument string) (int, error) {
	for _, pid := range children() {
		called, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || strings.TrimSpace(string(called)) != name {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && (argument == "" || bytes.Contains(line, []byte("\x00"+argument+"\x00"))) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no child %s %s runs", name, argument)
}
