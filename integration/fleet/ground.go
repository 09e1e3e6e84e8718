package fleet

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Ground is what a fleet stands on: processes beside API servers of this machine (the default), or pods in kind
// clusters. It is the one thing that differs between the two; scenarios say the same on both.
type Ground interface {
	// Registry brings the registry up. The fleet has its keys already and nothing else.
	Registry(ctx context.Context, f *Fleet) (Endpoint, error)
	// Cluster brings a cluster up, the control plane's or a runtime's.
	Cluster(ctx context.Context, f *Fleet, name string, control bool) (Cluster, error)
	// Publisher runs `kcp-publisher run` with flags that say how, not where.
	Publisher(f *Fleet, flags []string) (Program, error)
	// Agent runs `skr-agent run` in a runtime that was enrolled, in the same way.
	Agent(r *Runtime, flags []string) (Program, error)
	// CutRegistry takes the registry off the network for everybody; HealRegistry brings it back with its data.
	CutRegistry() error
	HealRegistry() error
	// Close removes what the ground made beside clusters and programs.
	Close() error
}

// Endpoint is a registry that is up.
type Endpoint struct {
	// Host is the registry's name and port as the fleet's programs know it.
	Host string
	// OwnerHost is a way for this process to the same repositories, with the rights of Owner.
	OwnerHost string
	Owner     *store.Registries
	// Modules is the same with the rights of who releases modules.
	Modules *store.Registries
	// Enroll are the flags of `kcp-publisher enroll` that bring an agent's access along.
	Enroll []string
}

// Cluster is a running Kubernetes cluster.
type Cluster interface {
	// Kubeconfig is the path of a kubeconfig with all rights.
	Kubeconfig() string
	// Pause stops the cluster and Resume starts it again, with its data and at the same address.
	Pause() error
	Resume() error
	// Started is when the cluster was started last, as is known of what it runs on.
	Started(ctx context.Context) (time.Time, error)
	// Stop ends the cluster and removes its data.
	Stop() error
}

// Program is one of the project's two programs, as its users run it.
type Program interface {
	// Stop asks the program to end and waits for it; Kill ends it as a power cut would.
	Stop() error
	Kill() error
	// Log returns what the program printed so far.
	Log() string
}

// Link is a runtime's way to the registry and to nothing else, where a ground has one for each runtime.
type Link interface {
	// Cut drops everything from now on. Nothing is refused: to the agent the registry is silent.
	Cut(ctx context.Context) error
	// Impair loses some of what passes and delays or slows the rest, and says how it does that.
	Impair(ctx context.Context) (string, error)
	// Heal ends both.
	Heal(ctx context.Context) error
	// Dropped counts what the link has swallowed since it was last cut or impaired: packets, or pieces and connections.
	Dropped(ctx context.Context) (int, error)
}

// Linked is a ground whose runtimes have links of their own.
type Linked interface {
	Link(runtime string) Link
}

// Link is the runtime's way to the registry, nil where the ground has none for each runtime.
func (r *Runtime) Link() Link {
	if ground, linked := r.fleet.ground.(Linked); linked {
		return ground.Link(r.ID)
	}
	return nil
}

// CutRegistry takes the registry off the network for everybody.
func (f *Fleet) CutRegistry() error { return f.ground.CutRegistry() }

// HealRegistry brings it back.
func (f *Fleet) HealRegistry() error { return f.ground.HealRegistry() }
