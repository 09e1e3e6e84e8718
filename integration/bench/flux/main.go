// Command flux measures the agent next to Flux's source-controller and kustomize-controller: each installs the same
// applications into a cluster of its own. It prints a table that it also leaves in bench/, with the figures as JSON,
// beside those of the run before.
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
)

// options configure one run.
type options struct {
	Apps int
	// Poll is the interval between two polls of the agent, and Idle the time without changes while idle programs are
	// measured.
	Poll, Idle time.Duration
	// Only measures one side, and writes no table.
	Only string
	// Profiles is the folder for CPU profiles of the agent, empty for none.
	Profiles string

	profilesAddress string // where the agent serves them
}

func main() {
	var o options
	flag.IntVar(&o.Apps, "n", 100, "applications")
	flag.DurationVar(&o.Poll, "poll", time.Minute, "how often the agent looks for a newer bundle")
	flag.DurationVar(&o.Idle, "idle", time.Minute, "how long idle programs are measured")
	flag.StringVar(&o.Only, "only", "", "measure one side alone, ours or flux, and write no table")
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
		return errors.New("want -n of at least 1, -idle of at least 10s, -only ours or flux, and no arguments")
	}
	if o.Profiles != "" {
		var err error
		if o.profilesAddress, err = process.FreeAddress(); err != nil {
			return err
		}
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return err
		}
	}
	result := newResults(o)
	for _, b := range []*bench{
		{options: o, side: &theirs{apps: o.Apps}}, {options: o, side: &ours{apps: o.Apps, options: o}},
	} {
		if _, isTheirs := b.side.(*theirs); o.Only == "ours" && isTheirs || o.Only == "flux" && !isTheirs {
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

// agentFlags are for profiles.
func (o options) agentFlags() []string {
	if o.profilesAddress == "" {
		return nil
	}
	return []string{"--pprof", "--metrics-bind-address=" + o.profilesAddress}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench-flux: %s: %s\n", b.name(), fmt.Sprintf(format, args...))
}

// apiServerOf is the process behind a configuration.
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
