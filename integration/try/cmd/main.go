// Command cmd tries a module for `make try-module`. It prints a verdict for each step, and exits with code 1 if a
// step failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/steps"
	"github.com/kyma-pull/kyma-pull/integration/try"
)

// dir is the folder for the logs of the latest run of this command.
const dir = ".try"

func main() {
	var options try.Options
	flags := pflag.NewFlagSet("try", pflag.ContinueOnError)
	options.AddFlags(flags)
	onKind := flags.Bool("kind", false, "run on kind clusters with real pods; requires Docker")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(2)
	}
	if *onKind && !flags.Changed("ready-within") {
		options.ReadyWithin *= 2 // real pods need more time to start than simulated ones
	}
	steps.Main("try", dir, func(ctx context.Context, absolute string) error {
		options.Dir, options.Progress, options.Around = absolute, os.Stderr, steps.New(os.Stdout).Step
		if *onKind {
			return runOnKind(ctx, options)
		}
		return run(ctx, options)
	})
}

// runOnKind tries the module on kind clusters. After a failure, it collects diagnostics before it deletes the
// clusters.
func runOnKind(ctx context.Context, options try.Options) error {
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	environment, err := kind.New(ctx, kind.Options{Checkout: checkout, Dir: options.Dir, Progress: os.Stderr})
	if err != nil {
		return err
	}
	if err := environment.Prepare(ctx); err != nil {
		return errors.Join(err, environment.Close())
	}
	around := options.Around
	options.Around = func(title string, step func() error) error {
		err := around(title, step)
		if err != nil && ctx.Err() == nil {
			err = errors.Join(err, environment.Gather(ctx, filepath.Join(options.Dir, "failure")))
		}
		return err
	}
	options.Environment = environment
	return run(ctx, options)
}

func run(ctx context.Context, options try.Options) error {
	verdicts, err := try.Run(ctx, options)
	if len(verdicts) > 0 {
		fmt.Println()
		try.Print(os.Stdout, verdicts)
	}
	if err == nil && !try.Passed(verdicts) {
		err = fmt.Errorf("a step failed; logs are in %s", options.Dir)
	}
	return err
}
