package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Command is a program to start.
type Command struct {
	Binary string
	Args   []string
	// Env is added to the environment of this process.
	Env []string
	// Log is the path of the log file. The program's output is appended to this file.
	Log string
	// Restart starts the program again if it exits by itself, for example after it loses its Lease.
	Restart bool
}

// restartPause is the time before a program is started again.
const restartPause = time.Second

// Process is a program that runs as a separate process, such as kcp-publisher.
type Process struct {
	command Command
	stop    chan struct{} // closed by Stop and Kill
	exited  chan struct{} // closed when the program has ended for good

	mu      sync.Mutex // guards the fields below
	process *os.Process
	stopped bool
}

// Start starts a program. Callers must end it with Stop or Kill.
func (c Command) Start() (*Process, error) {
	p := &Process{command: c, stop: make(chan struct{}), exited: make(chan struct{})}
	running, err := p.launch()
	if err != nil {
		return nil, err
	}
	go p.supervise(running)
	return p, nil
}

func (p *Process) launch() (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.New("the program was stopped")
	}
	file, err := os.OpenFile(p.command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child process has its own descriptor
	cmd := exec.Command(p.command.Binary, p.command.Args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), p.command.Env...)
	// The kernel kills the program if this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.process = cmd.Process
	return cmd, nil
}

// supervise waits for the program and restarts it if needed.
func (p *Process) supervise(running *exec.Cmd) {
	defer close(p.exited)
	for {
		_ = running.Wait() // the log contains the error
		if !p.command.Restart {
			return
		}
		select {
		case <-p.stop:
			return
		case <-time.After(restartPause):
		}
		var err error
		if running, err = p.launch(); err != nil {
			return
		}
	}
}

// Signal sends a signal to the program. If the program has exited, it does nothing.
func (p *Process) Signal(signal os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.process.Signal(signal); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Exited returns a channel that is closed when the program has ended and will not be restarted.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop terminates the program and waits for its end.
func (p *Process) Stop() error {
	if err := p.signalStop(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(time.Minute):
		return p.Kill()
	}
}

// Kill ends the program without warning, as a power failure does.
func (p *Process) Kill() error {
	if err := p.signalStop(os.Kill); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// signalStop sends a signal to the program and prevents another restart.
func (p *Process) signalStop(signal os.Signal) error {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stop)
	}
	p.mu.Unlock()
	return p.Signal(signal)
}

// Running reports whether the program is running or will be restarted.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Log returns the program's output so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.command.Log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// MemoryBytes returns the program's resident memory.
func (p *Process) MemoryBytes() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return memory(p.process.Pid, "VmRSS")
}

// PeakMemoryBytes returns the program's maximum resident memory.
func (p *Process) PeakMemoryBytes() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return memory(p.process.Pid, "VmHWM")
}

// AnonymousMemoryBytes returns the program's resident memory without file-backed pages.
func (p *Process) AnonymousMemoryBytes() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return memory(p.process.Pid, "RssAnon")
}

// memory reads a memory value from a process's status file in /proc and returns it in bytes.
func memory(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(data, []byte(name+":"))
	var kib int64
	if _, err := fmt.Sscanf(string(rest), "%d kB", &kib); err != nil || !found {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return kib << 10, nil
}

// PeakMemory runs a program and returns its maximum resident memory. It reads the program's own status, because the
// rusage of a child includes memory of the parent.
func PeakMemory(ctx context.Context, binary string, args ...string) (int64, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	peak := int64(0)
	for {
		select {
		case err := <-ended:
			if err != nil {
				return 0, fmt.Errorf("%s %v: %w\n%s", filepath.Base(binary), args, err, output.String())
			}
			return peak, nil
		case <-tick.C:
			if now, err := memory(cmd.Process.Pid, "VmHWM"); err == nil { // fails if the process has just ended
				peak = max(peak, now)
			}
		}
	}
}

// Binaries are the paths of the two programs.
type Binaries struct{ Publisher, Agent string }

// EnvPrograms is the environment variable that contains the path of a folder with built programs. Several test
// binaries can share this folder.
const EnvPrograms = "KYMA_PULL_PROGRAMS"

// Build returns the paths of the two programs in the folder of EnvPrograms. Without that variable, it builds the
// programs once per process.
var Build = sync.OnceValues(func() (Binaries, error) {
	if dir := os.Getenv(EnvPrograms); dir != "" {
		built := Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}
		for _, program := range []string{built.Publisher, built.Agent} {
			// Stat makes the file an input of the test. Otherwise, `go test` could use a cached result of another
			// build.
			if _, err := os.Stat(program); err != nil {
				return Binaries{}, fmt.Errorf("$%s: %w", EnvPrograms, err)
			}
		}
		return built, nil
	}
	root, err := checkout()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(root, "bin")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags", "-s -w", "-o", dir+"/",
		"./kcp-publisher", "./skr-agent")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("build the programs: %w\n%s", err, output)
	}
	return Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}, nil
})

// checkout returns the folder with the project's go.mod.
func checkout() (string, error) {
	output, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Dir(string(bytes.TrimSpace(output))), nil
}

// Run runs kcp-publisher or skr-agent and returns the output and the exit code.
func Run(ctx context.Context, binary string, args ...string) (string, int) {
	cmd := exec.CommandContext(ctx, binary, args...)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(output), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), -1
	}
	return string(output), 0
}
