package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// program is a child process, which the kernel kills when the benchmark ends.
type program struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start starts a program and appends its output to a file. The function configure can change the command.
func start(log, binary string, args []string, configure func(*exec.Cmd)) (*program, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = file, file
	// In its own process group, the program does not receive Ctrl-C from a terminal. The kernel kills the program if
	// the bench is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if configure != nil {
		configure(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &program{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the program's log contains the error
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

// stop signals the program and waits. It kills a program that does not end.
func (p *program) stop(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s did not exit after signal %s", p.cmd.Path, signal), p.cmd.Process.Kill())
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
