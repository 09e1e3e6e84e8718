package fleet

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

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
	// Cut drops all traffic. The registry then does not respond, but connections are not refused.
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
