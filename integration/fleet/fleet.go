// Package fleet is the test harness of the scenarios. It starts, stops and changes a control plane, runtimes, a
// registry and the two programs, all real.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Options configure a fleet.
type Options struct {
	// Dir is the folder for keys, logs and kubeconfigs. If empty, a temporary folder is used.
	Dir string
	// Progress receives a line for each long operation.
	Progress io.Writer
	// Validity is the validity period of a bundle. 0 means the publisher's default.
	Validity time.Duration
	// Silence is the time without a report after which a runtime counts as silent. 0 means the publisher's default.
	Silence time.Duration
	// Durable makes the control plane's etcd sync its writes to disk.
	Durable bool
	// Measured runs all processes with Go's default settings and without audit logs, for realistic measurements.
	Measured bool
	// Secured makes the registry use TLS and passwords. Each program has its own password.
	Secured bool
	// Tokens makes the registry use TLS and tokens of `kcp-publisher token-service`. Each program can access only its
	// own repositories.
	Tokens bool
	// LeaderElect enables leader election, which is the default of the programs. The Lease of a killed program then
	// delays the next one until the Lease expires.
	LeaderElect bool
	// SingleCluster also makes workloads in the control plane's cluster ready. AddSingle requires it.
	SingleCluster bool
	// Patience is the time limit of UntilState and UntilGone. 0 means Generous.
	Patience time.Duration
	// Links gives each runtime's agent its own link to the registry (see Runtime.Link). Without an Environment,
	// Links cannot be combined with Secured or Tokens, because clients send passwords only to the registry's own address.
	Links bool
	// Environment is the infrastructure of the fleet. Nil means processes on this machine.
	Environment Environment
	// Notifications makes the registry notify the publisher of pushes, and the publisher notify its agents. Nil means
	// polling only.
	Notifications *Notifications
	// RestrictSettings makes the publisher ignore the restricted settings of Kymas if the chart's admission policy,
	// which protects them, is not installed.
	RestrictSettings bool
	// PublisherFlags are added to the publisher's command line.
	PublisherFlags []string
	// AgentFlags are added to the command line of every agent.
	AgentFlags []string
	// PublisherRights lists the files in charts/kcp-publisher/rbac with the permissions that the publisher gets. If it
	// is empty, the publisher gets all permissions.
	PublisherRights []string
	// AgentRights lists the files in charts/skr-agent/rbac with the permissions that each agent gets. If it is empty,
	// agents get all permissions.
	AgentRights []string
	// RegistryHost is the host of a running registry without passwords. If empty, the fleet starts a
	// registry.
	RegistryHost string
	// RegistryCA is a PEM file with the CA of the registry in RegistryHost, for the publisher and for Enroll. Empty if the
	// registry does not use TLS. OwnerCA contains all CAs that the test itself trusts.
	RegistryCA string
	OwnerCA    []byte
	// RegistryBeside is a second host name of the registry in RegistryHost. If it is set, all programs except the
	// publisher use it.
	RegistryBeside string
	// BlobHosts are the hosts to which the registry redirects blob requests.
	BlobHosts []string
	// Clusters lends API servers. If nil, the fleet starts new ones.
	Clusters *cluster.Pool
	// Programs are the paths of the programs to run. The zero value builds the programs of this checkout.
	Programs Binaries
	// Account creates the programs' accounts, for example with other permissions. If it is nil, PublisherRights and
	// AgentRights define the permissions.
	Account Account
}

// Fleet is a control plane with its registry and runtimes.
type Fleet struct {
	// Registry is the registry, or nil if the registry does not run in this process.
	Registry *registry.Registry
	// Control is a client of the control plane with all permissions.
	Control client.Client
	// Place is the registry prefix of the bundles and reports. It has write access.
	Place store.Store
	// Modules is the registry prefix of the modules' OCM components. It has write access.
	Modules    store.Store
	Registries *store.Registries
	Dir        string

	options     Options
	share       string // name of this share (see Share); empty for the whole fleet
	ownDir      bool
	binaries    Binaries
	environment Environment
	endpoint    Endpoint
	kcp         Cluster
	publisher   Program
	tokens      *Process // nil if the fleet has no token service
	runtimes    []*Runtime
	simulated   []*Simulated
}

// Intervals of the programs. The defaults would slow down the scenarios.
const (
	agentPoll   = "300ms"
	agentReport = "2s"
	reportPoll  = "300ms"
)

// ControlPlane is the name of the control plane's cluster.
const ControlPlane = "kcp"

// Paths below the registry's host.
const (
	fleetPath   = "fleet"
	modulesPath = "modules"
)

// Start returns a running fleet. If the fleet fails to start, Start closes it and returns the error.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := New(options)
	if err := f.Up(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// New returns a fleet that is not started. Callers must call Close even if Up fails.
func New(options Options) *Fleet {
	f := &Fleet{Dir: options.Dir, options: options, environment: options.Environment}
	if f.options.Patience == 0 {
		f.options.Patience = Generous
	}
	if f.environment == nil {
		f.environment = &local{links: map[string]*Proxy{}}
	}
	return f
}

// Up starts the control plane and the registry, creates keys, and starts the publisher.
func (f *Fleet) Up(ctx context.Context) error {
	var err error
	if f.Dir == "" {
		f.ownDir = true
		if f.Dir, err = os.MkdirTemp("", "kyma-pull-fleet-"); err != nil {
			return err
		}
	}
	if f.binaries = f.options.Programs; f.binaries == (Binaries{}) {
		if f.binaries, err = Build(); err != nil {
			return err
		}
	}
	if err := f.run(ctx, "keys", "init", "--keys", f.Keys()); err != nil {
		return fmt.Errorf("create keys: %w", err)
	}
	if f.endpoint, err = f.environment.Registry(ctx, f); err != nil {
		return fmt.Errorf("start the registry: %w", err)
	}
	f.Registries = f.endpoint.Owner
	if f.Place, err = store.Open(f.endpoint.OwnerHost+"/"+fleetPath, f.Registries); err != nil {
		return err
	}
	if f.Modules, err = store.Open(f.endpoint.OwnerHost+"/"+modulesPath, f.endpoint.Modules); err != nil {
		return err
	}
	if err := f.addControlPlane(ctx); err != nil {
		return err
	}
	return f.StartPublisher()
}

// run runs a command of the publisher until it ends.
func (f *Fleet) run(ctx context.Context, args ...string) error {
	if output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// Location returns the registry prefix of the fleet.
func (f *Fleet) Location() string { return f.endpoint.Host + "/" + fleetPath }

// Components returns the registry path of components for the programs.
func (f *Fleet) Components() string { return f.endpoint.Host + "/" + modulesPath }

// Keys returns the folder with the root of trust and the keys.
func (f *Fleet) Keys() string { return filepath.Join(f.Dir, "keys") }

// ControlKubeconfig returns the path of the control plane's admin kubeconfig.
func (f *Fleet) ControlKubeconfig() string { return filepath.Join(f.Dir, ControlPlane+".kubeconfig") }

// PublisherKubeconfig returns the path of a kubeconfig with the publisher's permissions in the control plane.
func (f *Fleet) PublisherKubeconfig() string { return filepath.Join(f.Dir, "kcp-publisher.kubeconfig") }

// StartPublisher runs `kcp-publisher run`.
func (f *Fleet) StartPublisher() error {
	var err error
	f.publisher, err = f.StartReplica()
	return err
}

// StartReplica starts another publisher with additional flags. The caller must stop it before Close.
func (f *Fleet) StartReplica(more ...string) (Program, error) {
	flags := []string{
		"--set=report-poll-interval=" + reportPoll, "--agent-poll-interval=" + agentPoll,
		"--agent-report-interval=" + agentReport,
	}
	if f.options.Validity != 0 {
		flags = append(flags, "--validity="+f.options.Validity.String())
	}
	if f.options.Silence != 0 {
		flags = append(flags, "--allowed-silence="+f.options.Silence.String())
	}
	if f.options.Notifications != nil {
		notifications, err := f.options.Notifications.PublisherFlags(f.Dir)
		if err != nil {
			return nil, err
		}
		flags = append(flags, notifications...)
	}
	return f.environment.Publisher(f, slices.Concat(flags, f.options.PublisherFlags, more))
}

// Publisher returns the running publisher.
func (f *Fleet) Publisher() Program { return f.publisher }

// Control plane outages.

// PauseControlPlane stops the control plane's API server.
func (f *Fleet) PauseControlPlane() error { return f.kcp.Pause() }

// ResumeControlPlane starts the control plane's API server again.
func (f *Fleet) ResumeControlPlane() error { return f.kcp.Resume() }

// Offer pushes versions of modules to the registry and creates their ModuleTemplates.
func (f *Fleet) Offer(ctx context.Context, versions ...sample.Version) error {
	for _, v := range versions {
		if err := v.Push(ctx, f.Modules); err != nil {
			return err
		}
		if err := f.Control.Create(ctx, v.Template()); err != nil {
			return fmt.Errorf("create the ModuleTemplate of %s %s: %w", v.Module, v.Version, err)
		}
	}
	return nil
}

// Release creates or changes the ModuleReleaseMeta of a module: the version in each channel. Another version in a
// channel is a promotion.
func (f *Fleet) Release(ctx context.Context, module, component string, channels ...v1beta2.ChannelVersion) error {
	want := sample.Release(module, component, channels...)
	want.Spec.KymaSelector = f.audience()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		have := &v1beta2.ModuleReleaseMeta{}
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(want), have)
		if apierrors.IsNotFound(err) {
			return f.Control.Create(ctx, want)
		}
		if err != nil {
			return err
		}
		have.Spec = want.Spec
		return f.Control.Update(ctx, have) // the publisher owns the status
	})
}

// Why runs `kcp-publisher why`.
func (f *Fleet) Why(ctx context.Context, args ...string) (string, error) {
	return f.Ask(ctx, append([]string{"why"}, args...)...)
}

// Ask runs a kcp-publisher command with the control plane's kubeconfig, and returns its output.
func (f *Fleet) Ask(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"))
	output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput()
	return string(output), err
}

// Binaries returns the paths of the two programs.
func (f *Fleet) Binaries() Binaries { return f.binaries }

// Close stops all programs and clusters and removes their files. For a share of a fleet, it removes only the runtimes
// and Kymas of the share.
func (f *Fleet) Close() error {
	problems := []error{f.closeUsers()}
	if f.share != "" {
		return errors.Join(append(problems, f.forgetKymas())...)
	}
	if f.publisher != nil {
		problems = append(problems, f.publisher.Stop())
	}
	if f.kcp != nil {
		problems = append(problems, f.kcp.Stop())
	}
	if f.tokens != nil {
		problems = append(problems, f.tokens.Stop())
	}
	problems = append(problems, f.environment.Close())
	if f.ownDir {
		problems = append(problems, os.RemoveAll(f.Dir))
	}
	return errors.Join(problems...)
}
