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

// Process is a program of the project that runs as its users run it.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start runs a program with its output appended to a file, and with more in its environment.
func start(env []string, binary, log string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), env...)
	// A program must not outlive a scenario that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &Process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended stands in its log
		file.Close()
		close(p.exited)
	}()
	return p, nil
}

// Stop asks the program to end and waits for it.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.ended(err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(time.Minute):
		return p.Kill()
	}
}

// Kill ends the program as a power cut would.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return p.ended(err)
	}
	<-p.exited
	return nil
}

// ended lets it pass that there is nothing left to end.
func (p *Process) ended(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		<-p.exited
		return nil
	}
	return err
}

// Running says that the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Log returns what the program printed so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// MemoryBytes is the program's resident memory now.
func (p *Process) MemoryBytes() (int64, error) { return memory(p.cmd.Process.Pid, "VmRSS") }

// memory reads a figure of the kernel's about a process.
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

// PeakMemory runs a program to its end and gives the most resident memory it ever had. What rusage says of a child would include its
// parent's.
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
			if now, err := memory(cmd.Process.Pid, "VmHWM"); err == nil { // a process that has just ended has none
				peak = max(peak, now)
			}
		}
	}
}

// Binaries are the project's two programs, built from this checkout.
type Binaries struct{ Publisher, Agent string }

// EnvPrograms names the environment variable of a folder with the two programs, for a run of many tests to build them once.
const EnvPrograms = "KYMA_PULL_PROGRAMS"

// Build builds the two programs once per process, unless the environment says where they are.
var Build = sync.OnceValues(func() (Binaries, error) {
	if dir := os.Getenv(EnvPrograms); dir != "" {
		built := Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}
		for _, program := range []string{built.Publisher, built.Agent} {
			// This also makes the file an input of the test, so that `go test` does not repeat what it said of another program.
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
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./kcp-publisher", "./skr-agent")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("build the programs: %w\n%s", err, output)
	}
	return Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}, nil
})

// checkout is the folder with the project's go.mod.
func checkout() (string, error) {
	output, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Dir(string(bytes.TrimSpace(output))), nil
}
