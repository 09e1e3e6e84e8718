// Package fleet is what scenarios are written in: a control plane, runtimes, a registry and the project's two programs, all
// real, with words for what happens to them.
package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Options describe a fleet.
type Options struct {
	// Dir keeps keys, logs and kubeconfigs; empty makes a folder that Close removes.
	Dir string
	// Progress gets a line for what takes long.
	Progress io.Writer
	// Validity is the life of a bundle, 0 for the publisher's default.
	Validity time.Duration
	// Silence is how long a runtime may be silent, 0 for the publisher's default.
	Silence time.Duration
	// Durable makes the control plane's etcd sync its writes.
	Durable bool
	// Secured makes the registry speak TLS and ask for passwords; each program has one of its own.
	Secured bool
	// LeaderElect lets both programs work under their lease, as they do unless told otherwise. A program that is killed leaves
	// its lease to run out, which most scenarios need not wait for.
	LeaderElect bool
	// SingleCluster lets the one runtime there is be the control plane's own cluster.
	SingleCluster bool
	// PublisherFlags are added to the publisher's command line.
	PublisherFlags []string
}

// Fleet is one control plane with its registry and runtimes.
type Fleet struct {
	Registry *registry.Registry
	// Control is the control plane's API, as an admin.
	Control client.Client
	// Place is where bundles are, with the rights of whoever owns the registry.
	Place *bundle.Place
	// Modules is where components are.
	Modules    *bundle.Place
	Registries *bundle.Registries
	Dir        string

	options   Options
	ownDir    bool
	binaries  Binaries
	kcp       *cluster.Cluster
	publisher *Process
	runtimes  []*Runtime
}

// Intervals are short, so that a scenario does not wait for what a real fleet does every minute.
const (
	agentPoll   = "700ms"
	agentReport = "2s"
	reportPoll  = "700ms"
)

// Start brings up control plane and registry, makes keys, and starts the publisher.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := &Fleet{Dir: options.Dir, options: options}
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	var err error
	if f.Dir == "" {
		f.ownDir = true
		if f.Dir, err = os.MkdirTemp("", "kyma-pull-fleet-"); err != nil {
			return err
		}
	}
	if f.binaries, err = Build(); err != nil {
		return err
	}
	if err := f.startRegistry(ctx); err != nil {
		return fmt.Errorf("start the registry: %w", err)
	}
	if f.Place, err = bundle.NewPlace(f.Location(), f.Registries); err != nil {
		return err
	}
	if f.Modules, err = bundle.NewPlace(f.Registry.Host()+"/modules", f.Registries); err != nil {
		return err
	}
	if f.kcp, err = cluster.Start(ctx, cluster.Options{Progress: f.options.Progress, Durable: f.options.Durable, Workloads: f.options.SingleCluster}); err != nil {
		return err
	}
	if f.Control, err = connect(f.kcp); err != nil {
		return err
	}
	if err := copyFile(f.kcp.Kubeconfig(), filepath.Join(f.Dir, "kcp.kubeconfig")); err != nil {
		return err
	}
	if err := f.prepareControlPlane(ctx); err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, f.binaries.Publisher, "keys", "init", "--keys", f.Keys()).CombinedOutput(); err != nil {
		return fmt.Errorf("make keys: %w\n%s", err, output)
	}
	return f.StartPublisher()
}

func (f *Fleet) startRegistry(ctx context.Context) error {
	options := registry.Options{}
	access := bundle.Access{NoRetry: true}
	if f.options.Secured {
		options = registry.Options{TLS: true, Users: map[string]string{"publisher": "p", "agent": "a"}}
	}
	var err error
	if f.Registry, err = registry.Start(ctx, options); err != nil {
		return err
	}
	for user := range options.Users {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + options.Users[user]))
		access.DockerConfig = fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, f.Registry.Host(), auth)
		if err := os.WriteFile(filepath.Join(f.Dir, user+".json"), access.DockerConfig, 0o600); err != nil {
			return err
		}
	}
	access.CA = f.Registry.CA()
	if err := os.WriteFile(filepath.Join(f.Dir, "ca.pem"), access.CA, 0o600); err != nil {
		return err
	}
	f.Registries, err = bundle.NewRegistries(access)
	return err
}

// registryFlags are what a user of a secured registry adds to a command line.
func (f *Fleet) registryFlags(user string) []string {
	if !f.options.Secured {
		return nil
	}
	return []string{"--registry-config", filepath.Join(f.Dir, user+".json"), "--registry-ca", filepath.Join(f.Dir, "ca.pem")}
}

func connect(c *cluster.Cluster) (client.Client, error) {
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(c.Config, client.Options{Scheme: scheme})
}

func (f *Fleet) prepareControlPlane(ctx context.Context) error {
	files, err := charts.PublisherCRDs.ReadDir("kcp-publisher/files/crds")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := charts.PublisherCRDs.ReadFile("kcp-publisher/files/crds/" + file.Name())
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return err
		}
		if err := f.Control.Create(ctx, crd); err != nil {
			return fmt.Errorf("create CRD: %w", err)
		}
	}
	if err := f.Control.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}); err != nil {
		return err
	}
	return Until(ctx, 20*time.Second, "the control plane serves Kymas", func() (bool, string) {
		err := f.Control.List(ctx, &v1beta2.KymaList{})
		return err == nil, fmt.Sprint(err)
	})
}

// Location is the registry prefix of the fleet.
func (f *Fleet) Location() string { return f.Registry.Host() + "/fleet" }

// Keys is the folder with root of trust and keys.
func (f *Fleet) Keys() string { return filepath.Join(f.Dir, "keys") }

// StartPublisher runs `kcp-publisher run`.
func (f *Fleet) StartPublisher() error {
	args := []string{"run", "--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"), "--location", f.Location(), "--keys", f.Keys(),
		"--components", f.Registry.Host() + "/modules", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--leader-elect=" + strconv.FormatBool(f.options.LeaderElect), "--report-poll-interval", reportPoll, "--agent-poll-interval", agentPoll, "--agent-report-interval", agentReport}
	if f.options.Validity != 0 {
		args = append(args, "--validity", f.options.Validity.String())
	}
	if f.options.Silence != 0 {
		args = append(args, "--allowed-silence", f.options.Silence.String())
	}
	args = append(args, f.registryFlags("publisher")...)
	var err error
	f.publisher, err = start(f.binaries.Publisher, filepath.Join(f.Dir, "kcp-publisher.log"), append(args, f.options.PublisherFlags...)...)
	return err
}

// Publisher is the running publisher.
func (f *Fleet) Publisher() *Process { return f.publisher }

// Control plane outages.

// PauseControlPlane takes the control plane's API away; ResumeControlPlane gives it back.
func (f *Fleet) PauseControlPlane() error  { return f.kcp.Pause() }
func (f *Fleet) ResumeControlPlane() error { return f.kcp.Resume() }

// Offer pushes versions of modules and their ModuleTemplates.
func (f *Fleet) Offer(ctx context.Context, versions ...sample.Version) error {
	for _, v := range versions {
		if err := v.Push(ctx, f.Modules); err != nil {
			return err
		}
		if err := f.Control.Create(ctx, v.Template()); err != nil {
			return fmt.Errorf("offer %s %s: %w", v.Module, v.Version, err)
		}
	}
	return nil
}

// Release says which version of a module each channel has; saying it again is a promotion.
func (f *Fleet) Release(ctx context.Context, module, component string, channels ...v1beta2.ChannelVersion) error {
	want := sample.Release(module, component, channels...)
	have := &v1beta2.ModuleReleaseMeta{}
	err := f.Control.Get(ctx, client.ObjectKeyFromObject(want), have)
	if err != nil {
		return f.Control.Create(ctx, want)
	}
	have.Spec = want.Spec
	return f.Control.Update(ctx, have)
}

// Why runs `kcp-publisher why`.
func (f *Fleet) Why(ctx context.Context, args ...string) (string, error) {
	return f.Ask(ctx, append([]string{"why"}, args...)...)
}

// Ask runs a command of the publisher that talks to the control plane.
func (f *Fleet) Ask(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"))
	output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput()
	return string(output), err
}

// Run runs the publisher's or the agent's command line and gives output and exit code.
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

// Binaries are the programs that the fleet runs.
func (f *Fleet) Binaries() Binaries { return f.binaries }

// Close stops everything and removes what it made.
func (f *Fleet) Close() error {
	var problems []error
	for _, r := range f.runtimes {
		problems = append(problems, r.close())
	}
	if f.publisher != nil {
		f.publisher.Stop()
	}
	if f.kcp != nil {
		problems = append(problems, f.kcp.Stop())
	}
	if f.Registry != nil {
		problems = append(problems, f.Registry.Close())
	}
	if f.ownDir {
		problems = append(problems, os.RemoveAll(f.Dir))
	}
	return errors.Join(problems...)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// Until waits for something to become true. The error says what was awaited and what was seen last.
func Until(ctx context.Context, limit time.Duration, what string, seen func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := seen()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for: %s; last seen: %s", limit, what, state)
		case <-tick.C:
		}
	}
}

// describe gives an object's status for people.
func describe(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
