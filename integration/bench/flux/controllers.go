package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// controllers runs Flux's controllers as processes. Each has its own root folder with the files that it expects in a
// Pod.
type controllers struct {
	root    string
	storage string // address at which source-controller serves artifacts
	running []*controller
}

type controller struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

const (
	sourceConcurrency    = "10"
	kustomizeConcurrency = "20"
)

func newControllers(found assets.Flux, runtime *cluster.Cluster) (*controllers, error) {
	root, err := os.MkdirTemp("", "kyma-pull-flux-")
	if err != nil {
		return nil, err
	}
	c := &controllers{root: root}
	account := filepath.Join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount")
	for _, dir := range []string{account, filepath.Join(root, "tmp"), filepath.Join(root, "data")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return c, err
		}
	}
	if err := os.WriteFile(filepath.Join(account, "namespace"), []byte(fluxNamespace), 0o644); err != nil {
		return c, err
	}
	for _, program := range []string{found.SourceController, found.KustomizeController} {
		if err := copyProgram(program, filepath.Join(root, filepath.Base(program))); err != nil {
			return c, err
		}
	}
	if c.storage, err = loopback.Address(); err != nil {
		return c, err
	}
	return c, runtime.WriteKubeconfig(filepath.Join(root, "kubeconfig"))
}

func (c *controllers) start() error {
	common := []string{
		"--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--events-addr=", "--enable-leader-election",
		"--watch-all-namespaces",
	}
	c.running = nil
	for program, flags := range map[string][]string{
		"source-controller": {
			"--concurrent=" + sourceConcurrency, "--storage-path=/data", "--storage-addr=" + c.storage,
			"--storage-adv-addr=" + c.storage,
		},
		"kustomize-controller": {"--concurrent=" + kustomizeConcurrency},
	} {
		running, err := c.run(program, append(flags, common...))
		if err != nil {
			return fmt.Errorf("start %s: %w", program, err)
		}
		c.running = append(c.running, running)
	}
	return nil
}

func (c *controllers) run(program string, flags []string) (*controller, error) {
	log, err := os.OpenFile(filepath.Join(c.root, program+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("/"+program, flags...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.Env = []string{"KUBECONFIG=/kubeconfig", "RUNTIME_NAMESPACE=" + fluxNamespace, "HOME=/tmp"}
	// The agent inherits these Go runtime settings from the environment, so pass them on to the controllers, too.
	for _, name := range []string{"GOGC", "GOMAXPROCS", "GOMEMLIMIT"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	// The kernel kills the controllers if the bench is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Geteuid() != 0 { // without root, chroot needs a user namespace
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	running := &controller{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the controller's log contains the error
		close(running.exited)
	}()
	return running, nil
}

func (c *controllers) pids() []int {
	pids := make([]int, len(c.running))
	for i, running := range c.running {
		pids[i] = running.cmd.Process.Pid
	}
	return pids
}

// stop terminates both controllers.
func (c *controllers) stop() error {
	var problems []error
	for _, running := range c.running {
		if err := running.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			problems = append(problems, err)
		}
	}
	for _, running := range c.running {
		select {
		case <-running.exited:
		case <-time.After(30 * time.Second):
			problems = append(problems, running.cmd.Process.Kill())
			<-running.exited
		}
	}
	c.running = nil
	return errors.Join(problems...)
}

func (c *controllers) log() string {
	text := ""
	for _, name := range []string{"source-controller", "kustomize-controller"} {
		data, err := os.ReadFile(filepath.Join(c.root, name+".log"))
		if err != nil {
			text += err.Error() + "\n"
		}
		text += name + ":\n" + lastLines(string(data))
	}
	return text
}

func (c *controllers) settings() string {
	return fmt.Sprintf("--concurrent=%s and %s, with leases", sourceConcurrency, kustomizeConcurrency)
}

func (c *controllers) close() error { return errors.Join(c.stop(), os.RemoveAll(c.root)) }

// copyProgram copies a program. If possible, it creates a hard link instead.
func copyProgram(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
