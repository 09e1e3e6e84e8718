package manager

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Parts creates several managers in one process, each with its own lease. An outer manager serves metrics and probes.
type Parts struct {
	// Holder is the process's identity in all leases.
	Holder string
	// Outer serves metrics and probes. It does not need a lease.
	Outer ctrl.Manager

	flags     *Flags
	config    *rest.Config
	namespace string
}

// NewParts returns Parts with the outer manager. The options in base are settings without a flag, such as the leases'
// namespace.
func (f *Flags) NewParts(config *rest.Config, base ctrl.Options) (*Parts, error) {
	if !f.election.Enable {
		return nil, cli.Usage(errors.New(
			"--leader-elect=false cannot be combined with --shards: each shard requires a lease"))
	}
	holder, err := identity(config.Host + "/" + base.LeaderElectionNamespace + "/parts")
	if err != nil {
		return nil, fmt.Errorf("determine the identity for the leases: %w", err)
	}
	outer, err := f.make(config, base, false)
	return &Parts{Holder: holder, Outer: outer, flags: f, config: config, namespace: base.LeaderElectionNamespace}, err
}

// Election returns the durations for client-go's electors. If release is true, a process must release its leases when
// it exits.
func (p *Parts) Election() (elector Election, release bool) {
	return p.flags.elections().Elector(), p.flags.election.ReleaseOnCancel
}

// Lease returns the lease with the given name. It emits Events when the lease's holder changes.
func (p *Parts) Lease(name string) (*Lease, error) {
	lease, err := newLeaseFor(p.config, p.Holder, p.namespace, name, p.flags.elections())
	if err != nil {
		return nil, err
	}
	//nolint:staticcheck // client-go's leader election supports only this recorder
	lease.recordWith(p.Outer.GetEventRecorderFor(name))
	return lease, nil
}

// New returns the manager for one part. Its clients write only while the lease is valid. The caller must run leader
// election.
func (p *Parts) New(base ctrl.Options, lease *Lease) (ctrl.Manager, error) {
	base.Logger = ctrl.Log
	base.Metrics.BindAddress, base.HealthProbeBindAddress, base.LeaderElection = "0", "0", false
	base.Controller.SkipNameValidation = new(true) // the parts' controllers have the same names and share metrics
	mgr, err := ctrl.NewManager(withFence(p.config, lease), base)
	if err != nil {
		return nil, fmt.Errorf("set up a manager: %w", err)
	}
	if p.flags.events.address == "" {
		return mgr, nil
	}
	return withPosting(mgr, p.flags.events)
}
