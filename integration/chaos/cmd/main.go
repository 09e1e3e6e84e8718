// Command cmd runs a fleet under random faults for `make chaos` and prints a log. If an invariant was violated, it
// also prints the seed and exits with code 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/integration/chaos"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// dir is the folder for the logs, story.txt and bundles.txt of the newest run.
const dir = ".chaos"

func main() {
	options := chaos.Options{Progress: os.Stderr}
	var plan, quiet, compile bool
	flags := pflag.NewFlagSet("chaos", pflag.ContinueOnError)
	flags.Uint64Var(&options.Seed, "seed", 0, "seed of the plan; 0 for a random seed")
	flags.DurationVar(&options.Length, "duration", 5*time.Minute, "duration of the fault injection")
	flags.IntVar(&options.Shape.Real, "real", 5, "number of runtimes with an API server and an agent")
	flags.IntVar(&options.Shape.Simulated, "simulated", 15, "number of simulated runtimes, without an API server")
	flags.BoolVar(&options.Shape.Network, "network", false,
		"also disturb single connections between programs, registry and API servers")
	flags.BoolVar(&options.Shape.Clocks, "clocks", false,
		"also shift the clocks of programs by hours or days; this builds the programs with a changed time.Now")
	flags.BoolVar(&options.Shape.Disasters, "disasters", false,
		"also restore and copy API servers from earlier snapshots, remove APIs and set quotas")
	flags.StringVar(&options.Shape.Mixed, "mixed", "",
		"commit of an earlier release; every second real runtime runs its agent (the first build takes minutes)")
	flags.BoolVar(&options.Shape.Shards, "shards", false,
		"divide the fleet among the publishers")
	flags.BoolVar(&options.Shape.Expiry, "expiry", false,
		"make bundles expire after 30 seconds, and also stop all publishers for a longer time")
	flags.BoolVar(&options.Shape.Authorities, "ca", false,
		"let the registry use TLS, and also replace its CA after an announcement in bundles")
	flags.BoolVar(&options.Shape.Notifications, "notifications", false,
		"let the registry notify a publisher, and the publisher notify agents")
	flags.BoolVar(&options.Soak, "soak", false, "inject no faults, and check whether memory, goroutines and files grow")
	flags.BoolVar(&plan, "plan", false, "print the plan without running it")
	flags.BoolVar(&compile, "compile", false, "build the programs that --clocks and --mixed need, then exit")
	flags.BoolVar(&quiet, "quiet", false, "print the log only after a violation")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	options.Shape.Replicas = 2
	err := options.Shape.Check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if options.Dir, err = filepath.Abs(dir); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	if options.Seed == 0 {
		options.Seed = uint64(rand.Uint32())
	}
	if plan {
		steps := chaos.Generate(options.Seed, options.Shape, options.Length)
		if options.Soak {
			steps = chaos.Calm(steps)
		}
		for _, step := range steps {
			fmt.Printf("%8s  %s\n", step.At, step)
		}
		return
	}
	if !quiet {
		options.Live = os.Stdout
	}
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	if compile {
		do = buildPrograms
	}
	if err := do(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// buildPrograms builds the programs whose clocks can be set, and the earlier release in flag --mixed.
func buildPrograms(ctx context.Context, options chaos.Options) error {
	if commit := options.Shape.Mixed; commit != "" {
		fmt.Fprintf(os.Stderr, "chaos: building the programs of commit %s; the first build takes minutes\n", commit)
		if _, err := fleet.BuildAt(ctx, commit); err != nil && !errors.Is(err, fleet.ErrNoHistory) {
			return err
		}
	}
	return buildShiftable(ctx, options)
}

func buildShiftable(ctx context.Context, options chaos.Options) error {
	fmt.Fprintln(os.Stderr,
		"chaos: building programs whose clocks can be set; the first build takes minutes")
	return chaos.ShiftablePrograms(ctx, filepath.Join(options.Dir, "shiftable"))
}

func run(ctx context.Context, options chaos.Options) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	target := "chaos"
	if options.Soak {
		target = "soak"
	}
	again := fmt.Sprintf("make %s SEED=%d DURATION=%s REAL=%d SIMULATED=%d", target, options.Seed, options.Length,
		options.Shape.Real, options.Shape.Simulated)
	again += flagsOf(options.Shape)
	fmt.Println("This is", again)
	if options.Shape.Clocks {
		if err := buildShiftable(ctx, options); err != nil {
			return err
		}
	}
	outcome, err := chaos.Run(ctx, options)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "story.txt"), []byte(again+"\n\n"+outcome.Story.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "bundles.txt"), []byte(outcome.Bundles), 0o644)); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if len(outcome.Violations) > 0 && options.Live == nil {
		fmt.Print(outcome.Story)
	}
	if options.Soak {
		if err := writeTrends(again, outcome.Trends); err != nil {
			return err
		}
	}
	count(os.Stdout, "Injected:", outcome.Injected)
	count(os.Stdout, "Checked:", outcome.Checks)
	for _, v := range outcome.Violations {
		fmt.Printf("VIOLATION at %s: %s\n", v.At.Round(100*time.Millisecond), v)
	}
	if n := len(outcome.Violations); n > 0 {
		return fmt.Errorf("%d violations: see story.txt, bundles.txt and the logs in %s; repeat the run with: %s", n,
			options.Dir, again)
	}
	return nil
}

// flagsOf returns the flags that reproduce a plan, except the seed, the duration and the number of runtimes.
func flagsOf(shape chaos.Shape) string {
	var flags []string
	if shape.Network {
		flags = append(flags, "--network")
	}
	if shape.Clocks {
		flags = append(flags, "--clocks")
	}
	if shape.Disasters {
		flags = append(flags, "--disasters")
	}
	if shape.Mixed != "" {
		flags = append(flags, "--mixed="+shape.Mixed)
	}
	if shape.Shards {
		flags = append(flags, "--shards")
	}
	if shape.Expiry {
		flags = append(flags, "--expiry")
	}
	if shape.Authorities {
		flags = append(flags, "--ca")
	}
	if shape.Notifications {
		flags = append(flags, "--notifications")
	}
	if len(flags) == 0 {
		return ""
	}
	return fmt.Sprintf(" FLAGS='%s'", strings.Join(flags, " "))
}

func writeTrends(again string, trends []chaos.Trend) error {
	file, err := os.Create(filepath.Join(dir, "soak.md"))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "# `%s`\n\n", again); err != nil {
		return err
	}
	return chaos.WriteTrends(io.MultiWriter(os.Stdout, file), trends)
}

func count[K ~string](to io.Writer, title string, counts map[K]int) {
	fmt.Fprintln(to, title)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(to, "%7d  %s\n", counts[k], k)
	}
}
