// Package fleet is the test harness of the scenarios. It starts, stops and changes a real control plane, real
// runtimes, a real registry and the two programs.
package fleet

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/registry"
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
	// Tokens makes the registry use TLS and tokens from `kcp-publisher token-service`, so that each program can access
	// only its own repositories.
	Tokens bool
	// LeaderElect enables leader election, which is the programs' default. The successor of a killed program then waits
	// until the Lease expires.
	LeaderElect bool
	// SingleCluster makes workloads become ready in the control plane's cluster too. AddSingle requires this.
	SingleCluster bool
	// TimeLimit is the time limit of UntilState and UntilGone. 0 means LongTimeout.
	TimeLimit time.Duration
	// Links gives each runtime's agent its own link to the registry (see Runtime.Link). Without an Environment, Links
	// cannot be combined with Secured or Tokens, because clients send passwords only to the registry's own address.
	Links bool
	// Environment is the infrastructure of the fleet. Nil means processes on this machine.
	Environment Environment
	// Notifications makes the registry notify the publisher of pushes, and the publisher notify its agents. Nil means
	// polling only.
	Notifications *Notifications
	// RestrictSettings makes the publisher ignore restricted settings of Kymas while the admission policy that protects
	// them is not installed.
	RestrictSettings bool
	// PublisherFlags are added to the publisher's command line.
	PublisherFlags []string
	// PublisherEnvironment contains additional environment variables of the publisher, as NAME=VALUE.
	PublisherEnvironment []string
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
	// RegistryCA is a PEM file with the CA of the registry in RegistryHost, for the publisher and for Enroll. It is
	// empty if the registry does not use TLS. OwnerCA contains all CAs that this process trusts.
	RegistryCA string
	OwnerCA    []byte
	// SecondRegistryHost is a second host name of the registry in RegistryHost. If it is set, all programs except the
	// publisher use it.
	SecondRegistryHost string
	// BlobHosts are the hosts that receive redirected blob requests of the registry's clients.
	BlobHosts []string
	// Clusters lends API servers. If nil, the fleet starts new ones.
	Clusters *cluster.Pool
	// Endpoints makes the API servers of the runtimes send requests to the endpoints of Services (see
	// cluster.Options). It requires new API servers, so Clusters must be nil.
	Endpoints bool
	// Programs are the paths of the programs to run. The zero value builds the programs of this checkout.
	Programs Binaries
	// Account creates the programs' ServiceAccounts. If it is nil, the fleet creates them with the permissions in
	// PublisherRights and AgentRights.
	Account Account
}

// Fleet is a control plane with its registry and runtimes.
type Fleet struct {
	// Registry is the registry, or nil if the registry does not run in this process.
	Registry *registry.Registry
	// Control is a client of the control plane with all permissions.
	Control client.Client
	// Place is the store at the registry prefix for bundles and reports. It has write access.
	Place store.Store
	// Modules is the store at the registry prefix for the modules' OCM components. It has write access.
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

// Runtime is a customer's cluster with its agent.
type Runtime struct {
	ID string
	// API is a client of the runtime with all permissions.
	API client.Client
	// AgentFlags are added to the agent's command line at its next start.
	AgentFlags []string

	// AgentProgram is the path of the agent program for its next start. If it is empty, the fleet's program is used.
	AgentProgram string

	// name distinguishes the files of a copy from those of the original. If it is empty, ID is used.
	name string
	// location is the registry prefix that the agent uses. If it is empty, the agent uses the fleet's prefix.
	location string
	fleet    *Fleet
	cluster  Cluster // nil if the runtime uses the control plane's cluster
	agent    Program
}

// Simulated is a runtime without a cluster. It pulls and verifies bundles, treats modules as installed, and sends
// signed reports.
type Simulated struct {
	ID string

	fleet  *Fleet
	root   trust.Root
	token  trust.Token
	signer trust.Signer
	stop   func()
	ended  chan struct{}

	mu       sync.Mutex // guards the fields below
	away     bool
	breaks   map[string]bool
	current  *bundle.Bundle
	bundles  int
	has      map[string]bundle.Manifest
	waits    map[string]bool
	own      *v1beta2.KymaSpec // spec of the runtime's own Kyma; nil until an edit
	edits    int64
	history  []string
	sequence int64
	sent     string
	sentAt   time.Time
	trouble  error
	features []bundle.Feature // reported bundle features; nil for all features of this version
	outcomes map[string]v1beta2.CheckOutcome
}

// Environment is the infrastructure of a fleet: processes on this machine (the default), or pods in kind clusters.
type Environment interface {
	// Registry starts the fleet's registry. The fleet's keys already exist.
	Registry(ctx context.Context, f *Fleet) (Endpoint, error)
	// Cluster starts the control plane's cluster if control is true. Otherwise, it starts the cluster of the runtime
	// with this name.
	Cluster(ctx context.Context, f *Fleet, name string, control bool) (Cluster, error)
	// Publisher runs `kcp-publisher run` with the given flags, and with flags for the addresses in this environment.
	Publisher(f *Fleet, flags []string) (Program, error)
	// Agent runs `skr-agent run` in an enrolled runtime with the given flags, and with flags for the addresses in this
	// environment.
	Agent(r *Runtime, flags []string) (Program, error)
	// CutRegistry disconnects the registry from the network. HealRegistry connects it again.
	CutRegistry() error
	HealRegistry() error
	// Close removes all objects of the environment. The fleet stops its clusters and programs itself.
	Close() error
}

// Endpoint describes a running registry.
type Endpoint struct {
	// Host is the name and port of the registry for the fleet's programs.
	Host string
	// OwnerHost is the name and port of the registry for this process, which uses the credentials in Owner.
	OwnerHost string
	Owner     *store.Registries
	// Modules accesses the registry with the permissions of a module team, which can push components.
	Modules *store.Registries
	// Enroll contains the flags of `kcp-publisher enroll` that give the agent access to the registry.
	Enroll []string
}

// Cluster is a running Kubernetes cluster.
type Cluster interface {
	// Kubeconfig returns the path of a kubeconfig with admin permissions.
	Kubeconfig() string
	// Pause stops the cluster. Resume starts it again, with its data and at the same address.
	Pause() error
	Resume() error
	// Started returns the time of the cluster's last start.
	Started(ctx context.Context) (time.Time, error)
	// Stop ends the cluster and removes its data.
	Stop() error
}

// Program is a running kcp-publisher or skr-agent.
type Program interface {
	// Stop terminates the program and waits until it has ended. Kill ends it without warning, as a power failure does.
	Stop() error
	Kill() error
	// Log returns the program's output so far.
	Log() string
}

// Link is the connection of one runtime to the registry. Tests can disturb it.
type Link interface {
	// Cut drops all traffic. Connections are not refused, but requests do not get a response.
	Cut(ctx context.Context) error
	// Impair drops a part of the traffic and delays the rest. It returns a description of the impairment.
	Impair(ctx context.Context) (string, error)
	// Heal ends Cut and Impair.
	Heal(ctx context.Context) error
	// Dropped returns how many packets or chunks of data the link has dropped since the last Cut or Impair.
	Dropped(ctx context.Context) (int, error)
}

// Linked is an Environment whose runtimes have their own links to the registry.
type Linked interface {
	Link(runtime string) Link
}

// Account creates the ServiceAccount of a program in a cluster and returns its kubeconfig. admin is a client
// configuration with all permissions in that cluster.
type Account func(ctx context.Context, program string, admin *rest.Config) (kubeconfig []byte, err error)

// Notifications contains the addresses and the token for notifications from the registry to the publisher, and from the
// publisher to the agents.
type Notifications struct {
	// Receiver is the publisher's HOST:PORT for notifications from the registry. Agents is the publisher's HOST:PORT
	// for agents that wait for notifications.
	Receiver, Agents string
	// Token authenticates the registry to the publisher.
	Token string
}

// ControlPlane is the name of the control plane's cluster.
const ControlPlane = "kcp"

// Paths below the registry's host.
const (
	fleetPath   = "fleet"
	modulesPath = "modules"
)

// Location returns the registry prefix of the fleet.
func (f *Fleet) Location() string { return f.endpoint.Host + "/" + fleetPath }

// Components returns the registry path that the programs use for the modules' components.
func (f *Fleet) Components() string { return f.endpoint.Host + "/" + modulesPath }

// Keys returns the folder with the root of trust and the keys.
func (f *Fleet) Keys() string { return filepath.Join(f.Dir, "keys") }

// ControlKubeconfig returns the path of the control plane's admin kubeconfig.
func (f *Fleet) ControlKubeconfig() string { return filepath.Join(f.Dir, ControlPlane+".kubeconfig") }

// PublisherKubeconfig returns the path of a kubeconfig with the publisher's permissions in the control plane.
func (f *Fleet) PublisherKubeconfig() string { return filepath.Join(f.Dir, "kcp-publisher.kubeconfig") }

// RegistryFlags returns the flags that give a program access to a secured registry as the given user.
func (f *Fleet) RegistryFlags(user string) []string {
	if f.options.RegistryCA != "" {
		return []string{"--registry-ca", f.options.RegistryCA}
	}
	if !f.options.Secured && !f.options.Tokens {
		return nil
	}
	return []string{
		"--registry-config", filepath.Join(f.Dir, user+".json"), "--registry-ca", filepath.Join(f.Dir, "ca.pem"),
	}
}

// Kubeconfig returns the path of the runtime's admin kubeconfig.
func (r *Runtime) Kubeconfig() string {
	return filepath.Join(r.fleet.Dir, cmp.Or(r.name, r.ID)+".kubeconfig")
}

// AgentKubeconfig returns the path of a kubeconfig with the agent's permissions in the runtime.
func (r *Runtime) AgentKubeconfig() string {
	return filepath.Join(r.fleet.Dir, cmp.Or(r.name, r.ID)+"-agent.kubeconfig")
}
