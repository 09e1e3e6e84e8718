// Command flux compares the agent with Flux's source-controller and kustomize-controller. Each side installs the same
// applications into its own cluster. The command prints a table that compares this run with the previous one, and
// writes it to bench/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

type options struct {
	Apps int
	// Poll is the agent's polling interval. Idle is the duration of the idle measurement.
	Poll, Idle time.Duration
	// Only limits the run to one side, "ours" or "flux". The command then does not write a table.
	Only string
	// Profiles is the folder for the agent's CPU profiles. If it is empty, the command does not take profiles.
	Profiles string

	profilesAddress string // address of the agent's pprof endpoint
}

func main() {
	var o options
	flag.IntVar(&o.Apps, "n", 100, "number of applications")
	flag.DurationVar(&o.Poll, "poll", time.Minute, "interval at which the agent checks for a new bundle")
	flag.DurationVar(&o.Idle, "idle", time.Minute, "duration of the idle measurement")
	flag.StringVar(&o.Only, "only", "", "measure only one side, ours or flux, and write no table")
	flag.StringVar(&o.Profiles, "profiles", "",
		"folder for CPU profiles of the agent; its figures then include the cost of profiling")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-flux:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.Apps < 1 || flag.NArg() > 0 || o.Only != "" && o.Only != "ours" && o.Only != "flux" ||
		o.Idle < 10*time.Second {
		return errors.New(
			"-n must be at least 1, -idle must be at least 10s, -only must be ours or flux, and arguments are not allowed")
	}
	if o.Profiles != "" {
		var err error
		if o.profilesAddress, err = loopback.Address(); err != nil {
			return err
		}
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return err
		}
	}
	result := newResults(o)
	for _, b := range []*bench{
		{options: o, product: &fluxProduct{apps: o.Apps}}, {options: o, product: &pullProduct{apps: o.Apps, options: o}},
	} {
		if _, isFlux := b.product.(*fluxProduct); o.Only == "ours" && isFlux || o.Only == "flux" && !isFlux {
			continue
		}
		if err := b.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", b.name(), err)
		}
		result.take(b)
	}
	if o.Only != "" {
		return result.print(os.Stdout, nil)
	}
	return result.write("bench", os.Stdout)
}

// agentFlags returns the agent's flags for profiling.
func (o options) agentFlags() []string {
	if o.profilesAddress == "" {
		return nil
	}
	return []string{"--set=pprof=true", "--metrics-bind-address=" + o.profilesAddress}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench-flux: %s: %s\n", b.name(), fmt.Sprintf(format, args...))
}

// apiServerOf returns the process ID of the API server that a client configuration refers to.
func apiServerOf(config *rest.Config) (int, error) {
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	address, err := url.Parse(host)
	if err != nil {
		return 0, err
	}
	return process.Child("kube-apiserver", "--secure-port="+address.Port())
}
