// Command scale measures a control plane with many runtimes on one machine. The API server, etcd, a registry on disk
// and `kcp-publisher run` are real processes. Agents pull, verify and report without a cluster.
//
// Times on a shared machine vary, so the command compares values of one run with baselines: loops that send the same
// requests. It prints a table and writes it to bench/fleet-N.md and bench/fleet-N.json, with the figures of the
// previous run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/integration/registry"
)

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		log.SetLogger(logr.Discard())
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if o.registry != "" {
			err = serveRegistry(ctx,
				registry.Options{Dir: o.registry, NotifyURL: o.notifyURL, NotifyToken: o.notifyToken}, os.Stdin,
				os.Stdout)
		} else {
			err = run(ctx, o.options, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-fleet:", err)
		os.Exit(1)
	}
}

type commandLine struct {
	options
	registry, notifyURL, notifyToken string
}

func parse(args []string) (commandLine, error) {
	var c commandLine
	var only, publisher string
	var limit int64
	flags := flag.NewFlagSet("bench-fleet", flag.ContinueOnError)
	flags.IntVar(&c.Runtimes, "n", 1000, "number of runtimes, from 100 to 10,000")
	flags.StringVar(&only, "only", "", "stages to measure, separated by commas, of: "+strings.Join(optional(), ", ")+
		"; the stages before enrollment always run")
	flags.DurationVar(&c.AgentPoll, "agent-poll", time.Minute, "interval at which agents check for a new bundle")
	flags.DurationVar(&c.AgentReport, "agent-report", 5*time.Minute, "interval at which agents report if nothing changes")
	flags.DurationVar(&c.Idle, "idle", time.Minute, "duration of the idle measurement")
	flags.Int64Var(&limit, "memory-limit", 500, "publisher's memory limit in the stage memory-limit, in MiB")
	flags.IntVar(&c.Seen, "seen", 10000,
		"number of runtimes of stage \"status\", up to 99999; runtimes beyond -n are copies")
	flags.StringVar(&publisher, "publisher-flags", "",
		"flags for `kcp-publisher run` in addition to its defaults, separated by spaces")
	flags.StringVar(&c.Profiles, "profiles", "",
		"folder for profiles of each stage: CPU of publisher, registry and API server, and the publisher's heap")
	flags.StringVar(&c.Out, "out", "bench", "folder for the results")
	flags.BoolVar(&c.Notifications, "notifications", false,
		"the registry notifies the publisher, and the publisher notifies the agents; both poll every "+short(rarePoll)+
			", unless other flags set the intervals")
	flags.StringVar(&c.registry, "serve-registry", "",
		"only serve a registry from this folder (internal)")
	flags.StringVar(&c.notifyURL, "serve-notify-url", "",
		"URL for the notifications of that registry (internal)")
	flags.StringVar(&c.notifyToken, "serve-notify-token", "",
		"token for the notifications of that registry (internal)")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	asked := false
	flags.Visit(func(f *flag.Flag) { asked = asked || f.Name == "agent-poll" })
	if c.Notifications && !asked {
		c.AgentPoll = rarePoll
	}
	if c.Runtimes < 100 || c.Runtimes > 10000 {
		return c, fmt.Errorf("-n must be between 100 and 10000, got %d", c.Runtimes)
	}
	if c.Seen > 99999 {
		return c, fmt.Errorf("-seen must be at most 99999, got %d", c.Seen)
	}
	c.MemoryLimit, c.PublisherArgs = limit<<20, strings.Fields(publisher)
	for _, name := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' }) {
		if !known(name) {
			return c, fmt.Errorf("-only: unknown stage %s; valid stages are %s", name, strings.Join(optional(), ", "))
		}
		c.Only = append(c.Only, name)
	}
	return c, nil
}

// run runs the stages, and prints and writes the results. After a failed stage, it continues with the next stage if
// possible.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	results := newResults(o)
	w := &world{options: o, out: out, results: results}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.startPrograms(ctx); err != nil {
		return err
	}
	var problems []error
	for _, s := range stages {
		if !s.runs(o.Only) {
			continue
		}
		err := w.measure(ctx, s)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = fmt.Errorf("stage %s: %w\n%s", s.name, err, w.failureReport())
		results.Failed = append(results.Failed, s.name)
		problems = append(problems, err)
		w.say("failed: %v", err)
		if s.isRequired {
			break
		}
		if err := w.recover(ctx); err != nil {
			problems = append(problems, fmt.Errorf("restore the fleet after stage %s: %w", s.name, err))
			break
		}
	}
	return errors.Join(append(problems, results.write(o.Out, out))...)
}
