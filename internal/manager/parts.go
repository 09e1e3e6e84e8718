package manager

import (
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Parts is how a process runs several managers, each under a lease of its own, beside the one that serves for all of
// them.
type Parts struct {
	// Holder is how the process is named in every lease.
	Holder string
	// Outer serves metrics and probes, and waits for no lease.
	Outer ctrl.Manager

	flags     *Flags
	config    *rest.Config
	namespace string
}

// NewParts makes the outer manager; base has what no flag says, among it the namespace of the leases.
func (f *Flags) NewParts(config *rest.Config, base ctrl.Options) (*Parts, error) {
	if !f.election.Enable {
		return nil, cli.Usage(fmt.Errorf("--leader-elect=false: each part of the work needs a lease"))
	}
	holder, err := identity()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the leases: %w", err)
	}
	outer, err := f.make(config, base, false)
	return &Parts{Holder: holder, Outer: outer, flags: f, config: config, namespace: base.LeaderElectionNamespace}, err
}

// Election returns how leases are renewed.
func (p *Parts) Election() (election Election, release bool) {
	e := &p.flags.election
	return Election{e.LeaseDuration, e.RenewDeadline, e.RetryPeriod}, e.ReleaseOnCancel
}

// Lease returns the lease of a name. Changes of its holder become Events.
func (p *Parts) Lease(name string) (*Lease, error) {
	election, _ := p.Election()
	lease, err := newLeaseOf(p.config, p.Holder, p.namespace, name, election.Lease, election.Renew)
	if err != nil {
		return nil, err
	}
	lease.tell(p.Outer.GetEventRecorderFor(name)) //nolint:staticcheck // client-go's leader election knows no other
	return lease, nil
}

// New makes the manager of one part. It serves nothing, and runs as soon as it is started.
func (p *Parts) New(base ctrl.Options) (ctrl.Manager, error) {
	base.Logger = ctrl.Log
	base.Metrics.BindAddress, base.HealthProbeBindAddress, base.LeaderElection = "0", "0", false
	base.Controller.SkipNameValidation = new(true) // the metrics of its controllers are those of all parts together
	mgr, err := ctrl.NewManager(p.config, base)
	if err != nil {
		return nil, fmt.Errorf("set up a manager: %w", err)
	}
	if p.flags.events.address == "" {
		return mgr, nil
	}
	return posting(mgr, p.flags.events)
}
