package fleet

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Ground is the infrastructure of a fleet: processes with API servers on this machine (the default), or pods in kind
// clusters. Scenarios are the same on both.
type Ground interface {
	// Registry starts the registry. The caller has already created the keys of the fleet.
	Registry(ctx context.Context, f *Fleet) (Endpoint, error)
	// Cluster starts the control plane's cluster if control is true. Otherwise it starts the cluster of a runtime. name
	// is the name of the runtime.
	Cluster(ctx context.Context, f *Fleet, name string, control bool) (Cluster, error)
	// Publisher runs `kcp-publisher run`. The flags do not contain addresses, which the ground adds.
	Publisher(f *Fleet, flags []string) (Program, error)
	// Agent runs `skr-agent run` in an enrolled runtime. The flags do not contain addresses, which the ground adds.
	Agent(r *Runtime, flags []string) (Program, error)
	// CutRegistry disconnects the registry from the network. HealRegistry connects it again with its data.
	CutRegistry() error
	HealRegistry() error
	// Close removes everything that the ground created except clusters and programs, which the fleet stops itself.
	Close() error
}

// Endpoint describes a running registry.
type Endpoint struct {
	// Host is the name and port of the registry for the fleet's programs.
	Host string
	// OwnerHost is the host through which this process accesses the same repositories with the credentials in Owner.
	OwnerHost string
	Owner     *store.Registries
	// Modules is the store of components, with the permissions of a module team.
	Modules *store.Registries
	// Enroll contains the flags that give an agent access to the registry in `kcp-publisher enroll`.
	Enroll []string
}

// Cluster is a running Kubernetes cluster.
type Cluster interface {
	// Kubeconfig is the path of a kubeconfig with all permissions.
	Kubeconfig() string
	// Pause stops the cluster and Resume starts it again, with its data and at the same address.
	Pause() error
	Resume() error
	// Started returns the time of the cluster's last start.
	Started(ctx context.Context) (time.Time, error)
	// Stop ends the cluster and removes its data.
	Stop() error
}

// Program is a running kcp-publisher or skr-agent.
type Program interface {
	// Stop asks the program to end and waits for it. Kill ends it without warning, as a power failure does.
	Stop() error
	Kill() error
	// Log returns the program's output so far.
	Log() string
}

// Link is a runtime's own connection to the registry.
type Link interface {
	// Cut drops all traffic from now on. It does not refuse connections, so the agent waits for a registry that does
	// not respond.
	Cut(ctx context.Context) error
	// Impair drops a part of the traffic and delays or slows the rest. It returns a description of the impairment.
	Impair(ctx context.Context) (string, error)
	// Heal ends Cut and Impair.
	Heal(ctx context.Context) error
	// Dropped returns how much the link has dropped since the last Cut or Impair. The unit depends on the Link: network
	// packets, or chunks of data and connections.
	Dropped(ctx context.Context) (int, error)
}

// Linked is a Ground whose runtimes have their own links to the registry.
type Linked interface {
	Link(runtime string) Link
}

// Link returns the runtime's link to the registry, nil on a ground without links.
func (r *Runtime) Link() Link {
	if ground, linked := r.fleet.ground.(Linked); linked {
		return ground.Link(r.ID)
	}
	return nil
}

// CutRegistry disconnects the registry from the network.
func (f *Fleet) CutRegistry() error { return f.ground.CutRegistry() }

// HealRegistry connects the registry again.
func (f *Fleet) HealRegistry() error { return f.ground.HealRegistry() }
