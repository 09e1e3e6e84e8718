package manager

import (
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := &Flags{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(flags, cli.Settings(flags), "the cluster", Replicas, nil)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: one, context: {cluster: one}}]
`

func TestFlagsConfigureManager(t *testing.T) {
	base := ctrl.Options{LeaderElectionID: "one", LeaderElectionNamespace: "two"}
	options, err := parse(t).options(base)
	if err != nil {
		t.Fatal(err)
	}
	if !options.LeaderElection || !options.LeaderElectionReleaseOnCancel || options.LeaderElectionID != "one" ||
		options.LeaderElectionNamespace != "two" ||
		*options.LeaseDuration != 76*time.Second || *options.RenewDeadline != 75*time.Second ||
		*options.RetryPeriod != 2*time.Second ||
		options.Metrics.BindAddress != "0" ||
		options.HealthProbeBindAddress != "0" {
		t.Errorf("without flags: got options %+v, want the defaults", options)
	}
	options, err = parse(t, "--leader-elect=false", "--set=leader-election-release-on-cancel=false",
		"--set=leader-election-lease-duration=1m", "--set=leader-election-renew-deadline=40s",
		"--set=leader-election-retry-period=5s").options(base)
	if err != nil {
		t.Fatal(err)
	}
	if options.LeaderElection || options.LeaderElectionReleaseOnCancel || *options.LeaseDuration != time.Minute ||
		*options.RenewDeadline != 40*time.Second ||
		*options.RetryPeriod != 5*time.Second {
		t.Errorf("with flags: got options %+v, want the values of the flags", options)
	}
}

func TestClientHasNoRateLimitByDefault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		qps   float32
		burst int
	}{
		"no flags":                    {nil, -1, 300},
		"query rate limit":            {[]string{"--set=kube-api-qps=20"}, 20, 300},
		"query rate and burst limits": {[]string{"--set=kube-api-qps=0.5", "--set=kube-api-burst=40"}, 0.5, 40},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := parse(t, append(c.args, "--kubeconfig", path)...).Config()
			if err != nil || config.QPS != c.qps || config.Burst != c.burst {
				t.Errorf("got %+v, error %v, want QPS %g and burst %d", config, err, c.qps, c.burst)
			}
		})
	}
}

func TestInvalidFlagsAreUsageErrors(t *testing.T) {
	for name, c := range map[string]struct{ arg, want string }{
		"zero queries per second": {"--set=kube-api-qps=0", "kube-api-qps 0"},
		"zero burst":              {"--set=kube-api-qps=1 --set=kube-api-burst=0", "kube-api-burst 0"},
		"lease shorter than three retry periods": {
			"--set=leader-election-lease-duration=5s", "leader-election-lease-duration 5s",
		},
		"renew deadline too short": {
			"--set=leader-election-renew-deadline=2s", "1.2 times the retry period 2s",
		},
		"profiles without a metrics endpoint": {"--set=pprof=true --metrics-bind-address=0", "pprof requires"},
		"events address without a scheme":     {"--set=events-addr=notification-controller:80", "events-addr"},
		"100 percent jitter": {
			"--set=interval-jitter-percentage=100", "interval-jitter-percentage 100",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, strings.Fields(c.arg)...)
			_, err := f.Config()
			if !cli.IsUsage(err) {
				_, err = f.New(&rest.Config{}, ctrl.Options{})
			}
			if !cli.IsUsage(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The test runs in its own process, because only the first manager in a process sets the jitter.
func TestJitterFlagVariesIntervals(t *testing.T) {
	const own = "KYMA_PULL_TEST_JITTER"
	if os.Getenv(own) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJitterFlagVariesIntervals$",
			"-test.count=1")
		child.Env = append(os.Environ(), own+"=1")
		if output, err := child.CombinedOutput(); err != nil {
			t.Fatalf("test in its own process: got error %v and output\n%s", err, output)
		}
		return
	}
	f := parse(t, "--set=interval-jitter-percentage=50")
	if f.jitter.Percentage != 50 || parse(t).jitter.Percentage != intervalJitter {
		t.Errorf("got %d percent with the flag, %d percent by default", f.jitter.Percentage, parse(t).jitter.Percentage)
	}
	// New sets the jitter and then fails because the lease has no namespace.
	if _, err := f.New(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{LeaderElectionID: "one"}); err == nil {
		t.Fatal("New returned no error for a lease without a namespace")
	}
	varied := false
	for range 100 {
		d := jitter.JitteredIntervalDuration(time.Minute)
		if d < 30*time.Second || d > 90*time.Second {
			t.Fatalf("got interval %s, want 30s to 90s", d)
		}
		varied = varied || d < 54*time.Second || d > 66*time.Second
	}
	if !varied {
		t.Error("no interval varied by more than 10 percent")
	}
}

func TestEachLabelSelectorHasItsOwnLease(t *testing.T) {
	if got := Identity("one", ""); got != "one" {
		t.Errorf("got lease %q without a selector, want one", got)
	}
	if a, b := Identity("one", "shard=a"), Identity("one", "shard=b"); a == b || a == "one" ||
		a != Identity("one", "shard=a") {
		t.Errorf("got leases %q and %q for two selectors, want two leases", a, b)
	}
}

// With the jitter package's default source, this test panics or reports a data race.
func TestJitterIsSafeForConcurrentUse(t *testing.T) {
	f := parse(t)
	if err := f.jitter.SetGlobalJitter(rand.New(sharedSource{})); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20_000 {
				if got := jitter.JitteredIntervalDuration(time.Minute); got <= 0 || got >= 2*time.Minute {
					t.Errorf("got interval %s, want more than 0 and less than two minutes", got)
					return
				}
			}
		})
	}
	all.Wait()
}
