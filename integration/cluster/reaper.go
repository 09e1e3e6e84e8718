package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reaperScript is the shell script of the reaper. It waits for a line on its standard input, which this process
// writes after it has stopped the cluster. If the input ends without a line, this process was killed, and the script
// kills the cluster's programs.
const reaperScript = `
if read -r word; then exit 0; fi
for file in "$1"/*.pid; do
	[ -e "$file" ] && kill -9 "$(cat "$file")"
done
rm -rf "$1"
`

// reaper is a process that ends a cluster's programs and removes its folder if this process is killed.
type reaper struct {
	dir  string
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startReaper(dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "reaper", dir)
	// A separate process group does not receive a terminal's Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the reaper: %w", err)
	}
	return &reaper{dir: dir, cmd: cmd, pipe: pipe}, nil
}

// wrapProgram returns the path of a wrapper script for a program. The script writes its process ID to a file for the
// reaper and then executes the program. Use record instead for a program that this package starts itself.
func (r *reaper) wrapProgram(program string, measured bool) (string, error) {
	name := filepath.Base(program)
	set := ""
	if settings := settings(measured); len(settings) > 0 {
		set = "export " + strings.Join(settings, " ") + "\n"
	}
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s\n%sexec %s \"$@\"\n", quote(r.pidFile(name)), set, quote(program))
	path := filepath.Join(r.dir, "programs", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// A process that is forked during the write would inherit the open file, and executing the script would fail.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// settings returns environment variables that reduce a program's CPU time in tests. It returns none for a measured
// program.
func settings(measured bool) []string {
	if measured {
		return nil
	}
	var settings []string
	for _, setting := range []struct {
		name  string
		value int
	}{{"GOGC", TestGOGC}, {"GOMAXPROCS", 1}} {
		if os.Getenv(setting.name) == "" {
			settings = append(settings, fmt.Sprintf("%s=%d", setting.name, setting.value))
		}
	}
	return settings
}

// record stores the process ID of a running program for the reaper.
func (r *reaper) record(name string, pid int) error {
	return os.WriteFile(r.pidFile(name), fmt.Appendln(nil, pid), 0o600)
}

// forget removes the recorded process ID of a stopped program, because the system can reuse this ID.
func (r *reaper) forget(name string) error {
	if err := os.Remove(r.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// process returns the recorded process ID of a program.
func (r *reaper) process(name string) (int, error) {
	content, err := os.ReadFile(r.pidFile(name))
	if err != nil {
		return 0, fmt.Errorf("%s is not running: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("process id of %s: %w", name, err)
	}
	return pid, nil
}

// startedAt returns the time when a program wrote its process ID.
func startedAt(pidFile string) (time.Time, error) {
	file, err := os.Stat(pidFile)
	if err != nil {
		return time.Time{}, fmt.Errorf("the program is not running: %w", err)
	}
	return file.ModTime(), nil
}

// dismiss ends the reaper after all programs were stopped.
func (r *reaper) dismiss() error {
	_, err := io.WriteString(r.pipe, "stopped\n")
	return errors.Join(err, r.pipe.Close(), r.cmd.Wait())
}

func (r *reaper) pidFile(name string) string { return filepath.Join(r.dir, name+".pid") }

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
