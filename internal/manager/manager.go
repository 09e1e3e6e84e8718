// Package manager is how both programs run their controllers: the flags of `run` for the API server, leader election,
// metrics, probes and events, named as Flux's controllers name them, and the manager that they make.
package manager

import (
	"errors"
	"fmt"
	"math/rand"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Flags are what `run` of both programs takes.
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
}

// Lease returns the lease that the manager works under, once New has made it; nil without leader election.
func (f *Flags) Lease() *Lease { return f.lease }

// intervalJitter is by how many percent intervals differ from what flags say, more or less.
const intervalJitter = 10

// Election is how a lease is renewed by default.
type Election struct {
	// Lease is how long others wait before they take a lease that is not renewed, Renew how long its holder tries to renew
	// it, and Retry how long it waits between two tries.
	Lease, Renew, Retry time.Duration
}

// Replicas takes over soon, as controller-runtime does by default. Single is for a program of one replica, in a cluster
// that is to have little to do with it: one that ends gives the lease back, so that only one that is killed is waited
// for.
var (
	Replicas = Election{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second}
	Single   = Election{Lease: time.Minute, Renew: 40 * time.Second, Retry: 10 * time.Second}
)

// AddFlags adds the flags; cluster is what the API server is called in the help. Without a way to authenticate, which
// not every program can afford to link, metrics are served on this machine only unless the operator says otherwise.
func (f *Flags) AddFlags(flags *pflag.FlagSet, cluster string, election Election, authenticate Authenticate) {
	f.authenticate = authenticate
	f.cluster.AddFlags(flags, cluster)
	flags.Float32Var(&f.qps, "kube-api-qps", -1, "queries per second to the API server at most; -1: no limit but the API server's own priority and fairness")
	flags.IntVar(&f.burst, "kube-api-burst", 300, "queries to the API server at once at most, with --kube-api-qps")
	if authenticate != nil {
		flags.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint, 0 for none")
		flags.BoolVar(&f.metricsAuth, "metrics-auth", true, "serve metrics by HTTPS, to those only whom the API server knows and allows to get /metrics; false: by HTTP, to everybody")
	} else {
		flags.StringVar(&f.metricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of the metrics endpoint, which is HTTP and asks nobody who it is; 0 for none")
	}
	flags.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "address of the health probes, 0 for none")
	flags.BoolVar(&f.pprof, "pprof", false, "serve profiles at /debug/pprof/ of the metrics endpoint, to whom it serves metrics")
	flags.BoolVar(&f.goMetrics, "go-metrics", false, "serve all metrics of Go's runtime, some 140, instead of the few that its client has by default")
	f.events.addFlags(flags)
	flags.BoolVar(&f.election.Enable, "leader-elect", true, "work only while holding the lease")
	f.addElection(flags, election)
	f.jitter.BindFlagsWithDefault(flags, intervalJitter)
	flags.Lookup("interval-jitter-percentage").Usage = "by how many percent polling intervals vary, up and down; 0 to 99"
}

// addElection adds Flux's flags but for the one that --leader-elect is.
func (f *Flags) addElection(flags *pflag.FlagSet, election Election) {
	usages := map[string]string{
		"leader-election-release-on-cancel": "release the lease when the program ends, so that the next leader need not wait",
		"leader-election-lease-duration":    "how long others wait before they take a lease that is not renewed",
		"leader-election-renew-deadline":    "how long the leader tries to renew its lease before it stops",
		"leader-election-retry-period":      "how long to wait between two tries to get or renew the lease",
	}
	enable := f.election.Enable
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.election.BindFlags(all)
	f.election.Enable = enable
	f.election.LeaseDuration, f.election.RenewDeadline, f.election.RetryPeriod = election.Lease, election.Renew, election.Retry
	all.VisitAll(func(flag *pflag.Flag) {
		if usage, taken := usages[flag.Name]; taken {
			flag.DefValue, flag.Usage = flag.Value.String(), usage
			flags.AddFlag(flag)
		}
	})
}

// Config connects to the API server as the flags say.
func (f *Flags) Config() (*rest.Config, error) {
	switch {
	case f.qps != -1 && f.qps <= 0:
		return nil, cli.Usage(fmt.Errorf("--kube-api-qps %g: want more than 0, or -1 for no limit", f.qps))
	case f.qps > 0 && f.burst < 1:
		return nil, cli.Usage(fmt.Errorf("--kube-api-burst %d: want at least 1", f.burst))
	}
	config, err := f.cluster.Config()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	return config, nil
}

// Identity returns the name of a lease for programs that each reconcile what another selector selects: they do not wait
// for each other.
func Identity(base, selector string) string {
	if selector == "" {
		return base
	}
	return leaderelection.GenerateID(base, selector)
}

// New makes the manager; base has what no flag says, among it the name and namespace of the lease. It also sets how
// intervals vary.
func (f *Flags) New(config *rest.Config, base ctrl.Options) (ctrl.Manager, error) {
	return f.make(config, base, true)
}

func (f *Flags) make(config *rest.Config, base ctrl.Options, elect bool) (ctrl.Manager, error) {
	options, err := f.options(base)
	if err != nil {
		return nil, err
	}
	options.LeaderElection = options.LeaderElection && elect
	if err := f.jitter.SetGlobalJitter(rand.New(shared{})); err != nil {
		return nil, cli.Usage(fmt.Errorf("--interval-jitter-percentage %d: want 0 to 99", f.jitter.Percentage))
	}
	if options.LeaderElection {
		if f.lease, err = newLease(config, options.LeaderElectionNamespace, options.LeaderElectionID, f.election.LeaseDuration, f.election.RenewDeadline); err != nil {
			return nil, err
		}
		options.LeaderElectionResourceLockInterface = f.lease
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if f.lease != nil {
		f.lease.tell(mgr.GetEventRecorderFor(options.LeaderElectionID)) //nolint:staticcheck // client-go's leader election knows no other
	}
	if err := f.addServers(mgr, config); err != nil {
		return nil, err
	}
	if f.events.address == "" {
		return mgr, nil
	}
	return posting(mgr, f.events)
}

// options completes the manager's options.
func (f *Flags) options(base ctrl.Options) (ctrl.Options, error) {
	if err := f.events.check(); err != nil {
		return base, err
	}
	e := &f.election
	if e.RetryPeriod <= 0 || float64(e.RenewDeadline) <= 1.2*float64(e.RetryPeriod) || e.LeaseDuration <= e.RenewDeadline {
		return base, cli.Usage(fmt.Errorf("--leader-election-lease-duration %s: want more than the renew deadline %s, and that more than 1.2 times the retry period %s",
			e.LeaseDuration, e.RenewDeadline, e.RetryPeriod))
	}
	options := base
	options.Logger, options.MapperProvider = ctrl.Log, newMapper
	options.Metrics.BindAddress, options.HealthProbeBindAddress = "0", "0" // addServers serves both within limits
	options.LeaderElection, options.LeaderElectionReleaseOnCancel = e.Enable, e.ReleaseOnCancel
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &e.LeaseDuration, &e.RenewDeadline, &e.RetryPeriod
	if f.pprof && f.metricsAddress == "0" {
		return base, cli.Usage(errors.New("--pprof: is served by the metrics endpoint, which --metrics-bind-address 0 turns off"))
	}
	return options, nil
}
