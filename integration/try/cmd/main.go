// Command cmd tries a module: `make try-module` runs it. It prints a verdict for each step, and ends with exit code 1 where one failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/integration/teller"
	"github.com/kyma-pull/kyma-pull/integration/try"
)

// dir keeps the logs of the newest try.
const dir = ".try"

func main() {
	var options try.Options
	flags := pflag.NewFlagSet("try", pflag.ContinueOnError)
	flags.StringVar(&options.Component, "component", "", "OCM component NAME, whose last part is the module's name; default: the sample module")
	flags.StringVar(&options.From, "from", "", "version to install first")
	flags.StringVar(&options.To, "to", "", "version to upgrade to")
	flags.StringSliceVar(&options.Components, "components", nil, "registry path, ctf:PATH, or folder of archives that has the component; may be repeated")
	flags.StringSliceVar(&options.Templates, "templates", nil, "file or folder with ModuleTemplates; may be repeated")
	flags.DurationVar(&options.ReadyWithin, "ready-within", 2*time.Minute, "how long one runtime may take to install or upgrade the module")
	flags.StringArrayVar(&options.RegistryFlags, "registry-flag", nil, "flag by which kcp-publisher reaches components, such as --registry-config=FILE; may be repeated")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(2)
	}
	log.SetLogger(logr.Discard()) // the steps say what happens
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options try.Options) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	options.Dir, options.Progress, options.Around = absolute, os.Stderr, teller.New(os.Stdout).Step
	verdicts, err := try.Run(ctx, options)
	if len(verdicts) > 0 {
		fmt.Println()
		try.Print(os.Stdout, verdicts)
	}
	if err == nil && !try.Passed(verdicts) {
		err = fmt.Errorf("a step failed; logs are in %s", absolute)
	}
	return err
}
