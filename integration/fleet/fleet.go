// Package fleet is what scenarios are written in: a control plane, runtimes, a registry and the project's two
// programs, all real, with words for what happens to them.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
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
	// Durable makes the control plane's etcd sync its writes. Those of runtimes never do.
	Durable bool
	// Measured lets the two programs, and those of every cluster, run as Go does by default, where they are
	// processes, and no cluster notes requests. Else they collect garbage less often, and those of a cluster use one
	// processor each.
	Measured bool
	// Secured makes the registry speak TLS and ask for passwords; each program has one of its own.
	Secured bool
	// Tokens makes the registry speak TLS and ask for tokens of `kcp-publisher token-service`: each program reaches
	// what is its own.
	Tokens bool
	// LeaderElect lets both programs work under their lease, as they do unless told otherwise. A program that is
	// killed leaves its lease to run out, which most scenarios need not wait for.
	LeaderElect bool
	// SingleCluster lets workloads get ready in the control plane's own cluster, for AddSingle.
	SingleCluster bool
	// Patience is how long a module may take to reach a state, 0 for Generous.
	Patience time.Duration
	// Links leads each runtime's agent to the registry by a link of its own (Runtime.Link), where the ground does not
	// do so anyway. On this machine it cannot be had with Secured or Tokens, whose passwords are for the registry's
	// own address.
	Links bool
	// Ground is what the fleet stands on, nil for this machine.
	Ground Ground
	// Notifications has the registry notify the publisher, and the publisher its agents; nil for polls alone.
	Notifications *Notifications
	// PublisherFlags are added to the publisher's command line.
	PublisherFlags []string
	// AgentFlags are those of every runtime.
	AgentFlags []string
	// PublisherRights are files of charts/kcp-publisher/rbac: the publisher works as its ServiceAccount with what
	// they give and no other rights. None means all rights.
	PublisherRights []string
	// AgentRights are the same of charts/skr-agent/rbac, for the agents.
	AgentRights []string
	// RegistryHost is that of a registry without TLS and passwords that runs already, empty to start one.
	RegistryHost string
	// RegistryBeside is another way to it, past what stands before RegistryHost, for everybody but the publisher;
	// empty for the same way.
	RegistryBeside string
	// BlobHosts are where that registry redirects to; the programs are told by their flags.
	BlobHosts []string
	// Clusters lends the API servers of this machine, nil to start new ones.
	Clusters *cluster.Pool
	// Account makes the programs' accounts, instead of files of rights; nil for none.
	Account Account
}

// Fleet is one control plane with its registry and runtimes.
type Fleet struct {
	// Registry is the registry of this process; nil on another ground.
	Registry *registry.Registry
	// Control is the control plane's API, as an admin.
	Control client.Client
	// Place is where bundles are, with the rights of whoever owns the registry.
	Place store.Store
	// Modules is where components are.
	Modules    store.Store
	Registries *store.Registries
	Dir        string

	options   Options
	share     string // the name of this share, empty for the whole fleet
	ownDir    bool
	binaries  Binaries
	ground    Ground
	endpoint  Endpoint
	kcp       Cluster
	publisher Program
	tokens    *Process // nil without a token service
	runtimes  []*Runtime
	simulated []*Simulated
}

// Intervals are short, so that a scenario does not wait for what a real fleet does every minute.
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

// Start is a fleet that is up. One that does not come up is closed.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := New(options)
	if err := f.Up(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// New is a fleet that is not up yet. Whatever comes of Up, it has to be closed: until then one can look at what failed.
func New(options Options) *Fleet {
	f := &Fleet{Dir: options.Dir, options: options, ground: options.Ground}
	if f.options.Patience == 0 {
		f.options.Patience = Generous
	}
	if f.ground == nil {
		f.ground = &local{links: map[string]*Proxy{}}
	}
	return f
}

// Up brings up control plane and registry, makes keys, and starts the publisher.
func (f *Fleet) Up(ctx context.Context) error {
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
	if err := f.run(ctx, "keys", "init", "--keys", f.Keys()); err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	if f.endpoint, err = f.ground.Registry(ctx, f); err != nil {
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

// run runs the publisher's command line until it ends.
func (f *Fleet) run(ctx context.Context, args ...string) error {
	if output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// configOf is what a kubeconfig gives, without a second queue before the API server. No request outlives what the API
// server itself gives one by default, so that one that hangs ends and can be asked again. Nobody watches with it,
// which this would end too.
func configOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, time.Minute
	return config, nil
}

func connect(config *rest.Config) (client.Client, error) {
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// Location is the registry prefix of the fleet.
func (f *Fleet) Location() string { return f.endpoint.Host + "/" + fleetPath }

// Components is the registry path of components, as the programs know it.
func (f *Fleet) Components() string { return f.endpoint.Host + "/" + modulesPath }

// Keys is the folder with root of trust and keys.
func (f *Fleet) Keys() string { return filepath.Join(f.Dir, "keys") }

// ControlKubeconfig is the path of the admins' kubeconfig of the control plane.
func (f *Fleet) ControlKubeconfig() string { return filepath.Join(f.Dir, ControlPlane+".kubeconfig") }

// PublisherKubeconfig is the path of a kubeconfig with the publisher's rights in the control plane.
func (f *Fleet) PublisherKubeconfig() string { return filepath.Join(f.Dir, "kcp-publisher.kubeconfig") }

// StartPublisher runs `kcp-publisher run`.
func (f *Fleet) StartPublisher() error {
	var err error
	f.publisher, err = f.StartReplica()
	return err
}

// StartReplica runs one more publisher, with flags of its own. Whoever starts it stops it before Close.
func (f *Fleet) StartReplica(more ...string) (Program, error) {
	flags := []string{"--report-poll-interval=" + reportPoll, "--agent-poll-interval=" + agentPoll, "--agent-report-interval=" + agentReport}
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
	return f.ground.Publisher(f, slices.Concat(flags, f.options.PublisherFlags, more))
}

// Publisher is the running publisher.
func (f *Fleet) Publisher() Program { return f.publisher }

// Control plane outages.

// PauseControlPlane takes the control plane's API away.
func (f *Fleet) PauseControlPlane() error { return f.kcp.Pause() }

// ResumeControlPlane gives it back.
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
		return f.Control.Update(ctx, have) // the publisher writes the status
	})
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

// Close stops all programs and clusters and removes their files. Close of a share ends the share only.
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
	problems = append(problems, f.ground.Close())
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

// Generous is a limit for what takes seconds: where others have the processors, it takes many times as long. A limit
// costs nothing where what is awaited comes.
const Generous = 3 * time.Minute

// Until waits for something to become true. The error says what was awaited and what was seen last. It waits for
// seen, which has to end by itself, as requests of the fleet's clients do.
func Until(ctx context.Context, limit time.Duration, what string, seen func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := shortestPause; ; pause = min(pause*5/4, longestPause) {
		ok, state := seen()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for: %s; last seen: %s", limit, what, state)
		case <-time.After(pause):
		}
	}
}

// How long Until waits between two looks: the longer it has waited, the longer it may wait. Looks are requests, and
// those of many scenarios take the processors from what is awaited.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 300 * time.Millisecond
)

// describe returns an object's status for people.
func describe(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
