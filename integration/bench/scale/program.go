package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is a process of the bench's own that ends with it.
type program struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start runs a program with its output appended to a file; how changes the command before it starts.
func start(log, binary string, args []string, how func(*exec.Cmd)) (*program, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = file, file
	// Not in the group that a terminal's Ctrl-C goes to: the bench ends its programs itself, and dead it lets none behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if how != nil {
		how(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &program{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended stands in its log
		file.Close()
		close(p.exited)
	}()
	return p, nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end signals the program and waits; one that does not end is killed.
func (p *program) end(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s did not end after signal %s", p.cmd.Path, signal), p.cmd.Process.Kill())
	}
}

// tail returns the end of the program's log.
func (p *program) tail(most int64) string {
	file, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// usage is what the kernel says of a process.
type usage struct {
	CPU time.Duration
	// RSS is its resident memory now, Peak the most since it started or since resetPeak.
	RSS, Peak int64
}

// ticksPerSecond is USER_HZ, which is the same on every architecture that Go runs on.
const ticksPerSecond = 100

func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The name in parentheses may hold anything; user and system time are the 12th and 13th behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return usage{}, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	return usage{CPU: time.Duration(ticks) * time.Second / ticksPerSecond, RSS: kib(status, "VmRSS"), Peak: kib(status, "VmHWM")}, nil
}

func kib(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte(name+":"))
	var n int64
	_, _ = fmt.Sscanf(string(rest), "%d kB", &n) // a process that is ending has none
	return n << 10
}

// resetPeak lets the kernel count the peak of resident memory from now on.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// child returns the id of this process's child with that name, 0 for none.
func child(name string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if fields := strings.Fields(string(stat[to+1:])); len(fields) > 1 && string(stat[from+1:to]) == name && fields[1] == strconv.Itoa(os.Getpid()) {
			return pid
		}
	}
	return 0
}

// machineBusy is the CPU time that the whole machine has worked since it started.
func machineBusy() time.Duration {
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

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
