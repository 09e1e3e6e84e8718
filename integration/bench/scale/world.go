package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Repository paths of the fleet's bundles and of the modules in the registry.
const (
	fleetPath   = "fleet"
	modulesPath = "modules"
)

type world struct {
	options
	out     io.Writer
	results *results
	stage   string

	dir      string
	binaries fleet.Binaries
	kcp      *cluster.Cluster
	pids     map[string]int // process IDs of the API server and etcd
	control  client.Client
	api      rest.Interface // for requests that the controller-runtime client does not support
	registry *registryProcess
	// notifications contains the addresses of the publisher's notifications, or nil if agents only poll. notifyFlags
	// contains the publisher's flags for notifications.
	notifications *fleet.Notifications
	notifyFlags   []string
	place         store.Store // location of the bundles, with the host name that agents use
	publisher     *program
	metrics       string                   // address of the publisher's metrics endpoint
	spentBy       map[string]time.Duration // CPU time of replaced processes by program
	lastCPU       map[string]time.Duration
	kymas         *kymas
	agents        *agents
	version       int  // number of the promoted module's current version
	pending       bool // agents have not received the newest promotion yet
	// promoted is the duration of the measured promotion. statuses is the time until the publisher recorded all reports
	// about it. Both are 0 before the measurement.
	promoted, statuses time.Duration
	promotedCPU        time.Duration // CPU time of publisher and registry during the promotion
	mounts             int64         // blobs mounted per bundle of a promotion
}

// startPrograms starts all programs of the benchmark except the publisher.
func (w *world) startPrograms(ctx context.Context) error {
	w.stage, w.spentBy, w.lastCPU = "setup", map[string]time.Duration{}, map[string]time.Duration{}
	w.say("API server, registry and keys")
	var err error
	if w.dir, err = os.MkdirTemp("", "kyma-pull-bench-"); err != nil {
		return err
	}
	if err := onDisk(w.dir); err != nil {
		return err
	}
	if w.binaries, err = fleet.Build(); err != nil {
		return err
	}
	if output, code := fleet.Run(ctx, w.binaries.Publisher, "keys", "init", "--keys", w.keys()); code != 0 {
		return fmt.Errorf("make keys: %s", output)
	}
	if w.Notifications {
		if err := w.notify(); err != nil {
			return err
		}
	}
	if w.registry, err = startRegistry(w.dir, w.notifications); err != nil {
		return err
	}
	if w.place, err = openStore(net.JoinHostPort(agentsHost, w.registry.port) + "/" + fleetPath); err != nil {
		return err
	}
	w.kcp, err = cluster.Start(ctx, cluster.Options{
		Progress: os.Stderr, CRDs: []fs.FS{charts.PublisherCRDs}, Durable: true, Measured: true,
	})
	if err != nil {
		return err
	}
	w.pids = map[string]int{}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if w.pids[name], err = process.Child(name, ""); err != nil {
			return err
		}
	}
	if w.control, err = fleet.Connect(w.kcp.Kubeconfig(), ""); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(w.kcp.Config)
	if err != nil {
		return err
	}
	w.api = clients.CoreV1().RESTClient()
	if err := w.control.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}); err != nil {
		return err
	}
	if err := w.pushCatalog(ctx); err != nil {
		return err
	}
	if w.agents, err = w.newAgents(ctx); err != nil || !w.Notifications {
		return err
	}
	return w.subscribe(ctx)
}

func (w *world) keys() string { return filepath.Join(w.dir, "keys") }

// onDisk returns an error for a folder on an in-memory file system, because the measured programs write to disk.
func onDisk(dir string) error {
	var of unix.Statfs_t
	if err := unix.Statfs(dir, &of); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if of.Type == unix.TMPFS_MAGIC {
		return fmt.Errorf("%s is in memory: set TMPDIR to a folder on a disk", dir)
	}
	return nil
}

// startPublisher starts `kcp-publisher run` with default settings. The memory limit within is optional.
func (w *world) startPublisher(within *memoryLimit) error {
	address, err := loopback.Address()
	if err != nil {
		return err
	}
	host := net.JoinHostPort(publisherHost, w.registry.port)
	args := append([]string{"run", "--kubeconfig", w.kcp.Kubeconfig(), "--keys", w.keys(), "--location",
		host + "/" + fleetPath, "--components", host + "/" + modulesPath,
		"--metrics-bind-address", address, "--metrics-auth=false", "--set=pprof=true", "--health-probe-bind-address", "0"},
		slices.Concat(w.notifyFlags, w.PublisherArgs)...)
	how := func(cmd *exec.Cmd) {
		// A fixed Lease identity, as in the chart, lets a restarted publisher keep its Lease.
		cmd.Env = append(os.Environ(), "POD_NAME=kcp-publisher-0", "POD_UID="+w.dir)
		if within != nil {
			within.apply(cmd)
		}
	}
	w.metrics = address
	w.publisher, err = start(filepath.Join(w.dir, "kcp-publisher.log"), w.binaries.Publisher, args, how)
	return err
}

// killPublisher sends SIGKILL, so that the publisher cannot release its Lease.
func (w *world) killPublisher() error {
	if w.publisher == nil {
		return nil
	}
	w.spentBy["publisher"] = w.cpu("publisher") // cpu adds this time to the next process's time
	err := w.publisher.stop(syscall.SIGKILL)
	w.publisher = nil
	return err
}

// failureReport returns diagnostics after a failure.
func (w *world) failureReport() string {
	if w.publisher == nil {
		return ""
	}
	alive := "the publisher is running"
	if !w.publisher.running() {
		alive = "the publisher has ended"
	}
	var lines []string
	for line := range strings.Lines(w.publisher.tail(1 << 20)) {
		if !strings.Contains(line, `"level":"info"`) {
			lines = append(lines, line)
		}
	}
	return alive + "; last warnings and errors of its log:\n" +
		strings.Join(lines[max(0, len(lines)-5):], "")
}

// close ends all started programs and removes their folders.
func (w *world) close() error {
	var problems []error
	if w.agents != nil {
		w.agents.close()
	}
	if w.kymas != nil {
		w.kymas.close()
	}
	if w.publisher != nil {
		problems = append(problems, w.publisher.stop(syscall.SIGKILL))
	}
	if w.kcp != nil {
		problems = append(problems, w.kcp.Stop())
	}
	if w.registry != nil && w.registry.program != nil {
		problems = append(problems, w.registry.input.Close())
		problems = append(problems, w.registry.stop(syscall.SIGTERM))
	}
	if w.dir != "" {
		problems = append(problems, os.RemoveAll(w.dir))
	}
	return errors.Join(problems...)
}

func (w *world) pid(name string) int {
	switch {
	case name == "publisher" && w.publisher != nil:
		return w.publisher.pid()
	case name == "registry" && w.registry != nil:
		return w.registry.pid()
	case name == "agents":
		return os.Getpid()
	}
	return w.pids[name]
}

// cpu returns the CPU time of a program, including its replaced processes.
func (w *world) cpu(name string) time.Duration {
	if u, err := process.UsageOf(w.pid(name)); err == nil {
		w.lastCPU[name] = w.spentBy[name] + u.CPU
	}
	return w.lastCPU[name] // the last known value of an ended process
}

// cpuTimes contains the CPU times of the measured programs and of the machine since their start.
type cpuTimes struct {
	by      map[string]time.Duration
	machine time.Duration
}

func (w *world) taken() cpuTimes {
	t := cpuTimes{by: map[string]time.Duration{}, machine: process.MachineCPU()}
	for _, name := range processes {
		t.by[name] = w.cpu(name)
	}
	return t
}

func (t cpuTimes) since(before cpuTimes) cpuTimes {
	d := cpuTimes{by: map[string]time.Duration{}, machine: t.machine - before.machine}
	for name, now := range t.by {
		d.by[name] = now - before.by[name]
	}
	return d
}

func (t cpuTimes) seconds() map[string]float64 {
	s := map[string]float64{}
	for name, d := range t.by {
		s[name] = d.Seconds()
	}
	return s
}
