package fleet

import (
	"context"
)

// Environment is the infrastructure of a fleet: processes on this machine (the default), or pods in kind clusters.
type Environment interface {
	// Registry starts the fleet's registry. The fleet's keys already exist.
	Registry(ctx context.Context, f *Fleet) (Endpoint, error)
	// Cluster starts the control plane's cluster if control is true. Otherwise, it starts the cluster of the runtime
	// with this name.
	Cluster(ctx context.Context, f *Fleet, name string, control bool) (Cluster, error)
	// Publisher runs `kcp-publisher run` with the given flags, and with flags that contain addresses of this
	// environment.
	Publisher(f *Fleet, flags []string) (Program, error)
	// Agent runs `skr-agent run` in an enrolled runtime with the given flags, and with flags that contain addresses of
	// this environment.
	Agent(r *Runtime, flags []string) (Program, error)
	// CutRegistry disconnects the registry from the network. HealRegistry connects it again.
	CutRegistry() error
	HealRegistry() error
	// Close removes all objects of the environment. The fleet stops its clusters and programs itself.
	Close() error
}

// Link returns the runtime's link to the registry, or nil if the fleet's environment has no links.
func (r *Runtime) Link() Link {
	if environment, linked := r.fleet.environment.(Linked); linked {
		return environment.Link(r.ID)
	}
	return nil
}

// CutRegistry disconnects the registry from the network.
func (f *Fleet) CutRegistry() error { return f.environment.CutRegistry() }

// HealRegistry connects the registry again.
func (f *Fleet) HealRegistry() error { return f.environment.HealRegistry() }
