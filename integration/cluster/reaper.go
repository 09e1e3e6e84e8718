package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// reap waits on a pipe that only this process holds. A word on it says that the cluster was stopped in good order; its
// mere end, that this process was killed, by Ctrl-C or a test's time limit. Then what it started would run on forever.
const reap = `
if read -r word; then exit 0; fi
for file in "$1"/*.pid; do
	[ -e "$file" ] && kill -9 "$(cat "$file")"
done
rm -rf "$1"
`

// reaper ends a cluster's programs and removes its folder in place of a process that was killed.
type reaper struct {
	dir  string
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startReaper(dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reap, "reaper", dir)
	// Not in the group that a terminal's Ctrl-C goes to.
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

// watch returns a program to run in the other's place, which leaves its process id for the reaper before it becomes the
// other. One that is not measured collects garbage seldom and uses one processor at a time: to wake more of them for
// its many small pieces of work would take a tenth of what it uses.
func (r *reaper) watch(program string, measured bool) (string, error) {
	name := filepath.Base(program)
	set := ""
	if !measured {
		set = fmt.Sprintf("export GOGC=${GOGC:-%d} GOMAXPROCS=${GOMAXPROCS:-1}\n", CollectAt)
	}
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s\n%sexec %s \"$@\"\n", quote(r.pidFile(name)), set, quote(program))
	path := filepath.Join(r.dir, "programs", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// A process that another goroutine forks just now would hold the script open for writing, and nobody could run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// forget is for a program that was stopped, whose process id may soon be somebody else's.
func (r *reaper) forget(name string) error {
	if err := os.Remove(r.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// startedAt returns when a program wrote its process id, which it does first.
func startedAt(pidFile string) (time.Time, error) {
	file, err := os.Stat(pidFile)
	if err != nil {
		return time.Time{}, fmt.Errorf("the program does not run: %w", err)
	}
	return file.ModTime(), nil
}

// dismiss ends the reaper after everything it watched was stopped.
func (r *reaper) dismiss() error {
	_, err := io.WriteString(r.pipe, "stopped\n")
	return errors.Join(err, r.pipe.Close(), r.cmd.Wait())
}

func (r *reaper) pidFile(name string) string { return filepath.Join(r.dir, name+".pid") }

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
