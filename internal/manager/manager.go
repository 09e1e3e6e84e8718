// Package manager creates the controller-runtime managers for kcp-publisher and skr-agent. It defines `run`'s flags for
// the API server, leader election, metrics, probes and events. The flags have the same names as in Flux's controllers.
package manager

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Flags contains the flags for `kcp-publisher run` and `skr-agent run`.
type Flags struct {
	cluster                      cli.Cluster
	qps                          float32
	burst                        int
	metricsAddress, probeAddress string
	metricsAuth                  bool
	events                       webhook
	pprof                        bool
	goMetrics                    bool
	authenticate                 Authenticate
	election                     leaderelection.Options
	jitter                       jitter.IntervalOptions
	lease                        *Lease
	revisionInterval             time.Duration // default: the constant revisionInterval
}

// Lease returns the manager's lease, or nil if leader election is disabled. Callers must call New first.
func (f *Flags) Lease() *Lease { return f.lease }

func (f *Flags) elections() Election {
	return Election{Lease: f.election.LeaseDuration, Renew: f.election.RenewDeadline, Retry: f.election.RetryPeriod}
}

// intervalJitter is the default jitter for polling intervals in percent.
const intervalJitter = 10

// AddFlags adds flags and settings. cluster describes the cluster in the help.
//
// If authenticate is nil, the metrics endpoint does not authenticate clients and listens on the loopback address by
// default. A program can use nil to avoid the large packages for authentication.
func (f *Flags) AddFlags(
	flags, settings *pflag.FlagSet, cluster string, election Election, authenticate Authenticate,
) {
	f.authenticate = authenticate
	f.cluster.AddFlags(flags, cluster)
	settings.Float32Var(&f.qps, "kube-api-qps", -1,
		"maximum queries per second to the API server; -1: limited only by the API server's priority and fairness")
	settings.IntVar(&f.burst, "kube-api-burst", 300, "maximum burst of queries to the API server, with kube-api-qps")
	if authenticate != nil {
		flags.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080",
			"address of the metrics endpoint; 0: disabled")
		flags.BoolVar(
			&f.metricsAuth,
			"metrics-auth",
			true,
			"serve metrics over HTTPS to clients that the API server authenticates and authorizes to get /metrics; "+
				"false: serve metrics over HTTP to any client",
		)
	} else {
		flags.StringVar(&f.metricsAddress, "metrics-bind-address", "127.0.0.1:8080",
			"address of the metrics endpoint, which uses HTTP without authentication; 0: disabled")
	}
	flags.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "address for the health probes; 0: disabled")
	settings.BoolVar(&f.pprof, "pprof", false,
		"serve profiles at /debug/pprof/ of the metrics endpoint, to the clients that can read metrics")
	settings.BoolVar(&f.goMetrics, "go-metrics", false,
		"serve all metrics of the Go runtime, about 140, instead of the default set of client_golang")
	f.events.addSettings(settings)
	flags.BoolVar(&f.election.Enable, "leader-elect", true, "reconcile only while holding the lease")
	f.addElection(settings, election)
	f.jitter.BindFlagsWithDefault(settings, intervalJitter)
	settings.Lookup(
		"interval-jitter-percentage").Usage = "variation of polling intervals in percent, in both directions; 0 to 99"
}

// addElection adds Flux's leader election flags as settings. --leader-elect replaces --enable-leader-election.
func (f *Flags) addElection(settings *pflag.FlagSet, election Election) {
	usages := map[string]string{
		"leader-election-release-on-cancel": "release the lease when the program exits, so the next leader does " +
			"not wait",
		"leader-election-lease-duration": "time after which another replica acquires a lease that is not renewed; " +
			"the leader renews the lease after a third of this time",
		"leader-election-renew-deadline": "time after which a leader that cannot renew its lease exits; " +
			"it writes nothing after the lease has expired",
		"leader-election-retry-period": "time between two attempts to acquire the lease, or to repeat a failed " +
			"renewal",
	}
	enable := f.election.Enable
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.election.BindFlags(all)
	f.election.Enable = enable
	f.election.LeaseDuration, f.election.RenewDeadline, f.election.RetryPeriod = election.Lease, election.Renew,
		election.Retry
	all.VisitAll(func(flag *pflag.Flag) {
		if usage, ok := usages[flag.Name]; ok {
			flag.DefValue, flag.Usage = flag.Value.String(), usage
			settings.AddFlag(flag)
		}
	})
}

// Config returns the client configuration from the flags.
func (f *Flags) Config() (*rest.Config, error) {
	switch {
	case f.qps != -1 && f.qps <= 0:
		return nil, cli.Usage(fmt.Errorf("kube-api-qps %g: must be more than 0, or -1 for no limit", f.qps))
	case f.qps > 0 && f.burst < 1:
		return nil, cli.Usage(fmt.Errorf("kube-api-burst %d: must be at least 1", f.burst))
	}
	config, err := f.cluster.Config()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	return config, nil
}

// Identity returns the name of a program's lease: base, followed by a hash of the selector unless the selector is
// empty. Programs with different selectors thus use different leases.
func Identity(base, selector string) string {
	if selector == "" {
		return base
	}
	return leaderelection.GenerateID(base, selector)
}

// New returns the manager. The options in base are settings without a flag, such as the name of the lease. New also
// sets the process's interval jitter.
func (f *Flags) New(config *rest.Config, base ctrl.Options) (ctrl.Manager, error) {
	return f.make(config, base, true)
}

func (f *Flags) make(config *rest.Config, base ctrl.Options, elect bool) (ctrl.Manager, error) {
	options, err := f.options(base)
	if err != nil {
		return nil, err
	}
	options.LeaderElection = options.LeaderElection && elect
	if err := f.jitter.SetGlobalJitter(rand.New(sharedSource{})); err != nil {
		return nil, cli.Usage(fmt.Errorf("interval-jitter-percentage %d: must be 0 to 99", f.jitter.Percentage))
	}
	if options.LeaderElection {
		if f.lease, err = newLease(config, options.LeaderElectionNamespace, options.LeaderElectionID,
			f.elections()); err != nil {
			return nil, err
		}
		options.LeaderElectionResourceLockInterface = f.lease
		config = withFence(config, f.lease)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if elect && f.lease == nil {
		poll, err := newRevisionPoll(config, base.LeaderElectionNamespace, cmp.Or(f.revisionInterval, revisionInterval))
		if err != nil {
			return nil, err
		}
		if err := mgr.Add(manager.RunnableFunc(poll.exitOnceRestored)); err != nil {
			return nil, fmt.Errorf("set up the manager: %w", err)
		}
	}
	if f.lease != nil {
		//nolint:staticcheck // client-go's leader election supports only this recorder
		f.lease.recordWith(mgr.GetEventRecorderFor(options.LeaderElectionID))
		if err := mgr.Add(manager.RunnableFunc(f.lease.exitOnceLost)); err != nil {
			return nil, fmt.Errorf("set up the manager: %w", err)
		}
	}
	if err := f.addServers(mgr, config); err != nil {
		return nil, err
	}
	if f.events.address == "" {
		return mgr, nil
	}
	return withPosting(mgr, f.events)
}

func (f *Flags) options(base ctrl.Options) (ctrl.Options, error) {
	if err := f.events.check(); err != nil {
		return base, err
	}
	e := f.elections()
	switch {
	case e.Retry <= 0 || float64(e.Renew) <= 1.2*float64(e.Retry):
		return base, cli.Usage(
			fmt.Errorf("leader-election-renew-deadline %s: must be more than 1.2 times the retry period %s", e.Renew,
				e.Retry),
		)
	case e.Lease < 3*e.Retry || e.Lease < 3*time.Second:
		return base,
			cli.Usage(
				fmt.Errorf(
					"leader-election-lease-duration %s: must be at least 3s and three times the retry period %s",
					e.Lease, e.Retry))
	}
	elector := e.Elector()
	options := base
	options.Logger, options.MapperProvider = ctrl.Log, newMapper
	options.Metrics.BindAddress, options.HealthProbeBindAddress = "0", "0" // addServers adds its own servers instead
	options.LeaderElection, options.LeaderElectionReleaseOnCancel = f.election.Enable, f.election.ReleaseOnCancel
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &elector.Lease, &elector.Renew, &elector.Retry
	if f.pprof && f.metricsAddress == "0" {
		return base,
			cli.Usage(errors.New("pprof requires the metrics endpoint: set --metrics-bind-address to an address instead of 0"))
	}
	return options, nil
}
