// Package command is the command line of skr-agent: flags go in, the other packages do the work.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Exit codes, a contract.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// usageError is a mistake in how the command was called.
type usageError struct{ error }

// Execute runs the command line and gives the exit code.
func Execute(version string, args []string, out, errOut io.Writer) int {
	root := newRoot(version)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "skr-agent: %v\nrun `skr-agent --help`\n", err)
		return exitUsage
	case refusal.Of(err) != nil:
		fmt.Fprintf(errOut, "skr-agent: %v\n", err)
		return exitRefused
	}
	fmt.Fprintf(errOut, "skr-agent: %v\n", err)
	return exitFailed
}

// global are the flags that every command has.
type global struct {
	version, config, logLevel, logFormat string
}

func newRoot(version string) *cobra.Command {
	g := &global{version: version}
	root := &cobra.Command{
		Use: "skr-agent", Short: "pulls its runtime's bundle, verifies it, installs its modules and reports",
		Version: version, SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return g.readConfig(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q", args[0])}
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := root.PersistentFlags()
	flags.StringVar(&g.config, "config", "", "YAML file with values for flags, by flag name; flags given win")
	flags.StringVar(&g.logLevel, "log-level", "info", "trace, debug, info or error")
	flags.StringVar(&g.logFormat, "log-format", "json", "json or console")
	root.AddCommand(newRun(g), newVerify(), newProvenance(), newImport(), newExportReport(), newRender())
	return root
}

// readConfig sets every flag that the file names and the command line does not.
func (g *global) readConfig(flags *pflag.FlagSet) error {
	if g.config == "" {
		return nil
	}
	data, err := os.ReadFile(g.config)
	if err != nil {
		return usageError{fmt.Errorf("--config: %w", err)}
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		return usageError{fmt.Errorf("--config %s: %w", g.config, err)}
	}
	for name, value := range values {
		flag := flags.Lookup(name)
		if flag == nil || name == "config" {
			return usageError{fmt.Errorf("--config %s: %q is no flag of this command", g.config, name)}
		}
		if flag.Changed {
			continue
		}
		if err := flags.Set(name, fmt.Sprint(value)); err != nil {
			return usageError{fmt.Errorf("--config %s: %s: %w", g.config, name, err)}
		}
	}
	return nil
}

func (g *global) logger() logr.Logger {
	return logger.NewLogger(logger.Options{LogLevel: g.logLevel, LogEncoding: g.logFormat})
}

// print writes data as the flag -o says; table draws the table.
func print(out io.Writer, format string, data any, table func(io.Writer)) error {
	switch format {
	case "table":
		table(out)
		return nil
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(data)
	case "yaml":
		text, err := yaml.Marshal(data)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return usageError{fmt.Errorf("-o %q: want table, json or yaml", format)}
}

// registryFlags are how registries are spoken to.
type registryFlags struct {
	config, ca string
	plainHTTP  bool
}

func (r *registryFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&r.config, "registry-config", "", "docker config.json with the registries' credentials")
	flags.StringVar(&r.ca, "registry-ca", "", "PEM file with certificates that registries' may descend from")
	flags.BoolVar(&r.plainHTTP, "plain-http", false, "speak HTTP to registries that are not on this machine too")
}

// registries prepares access to registries; what no flag gives is taken from brought, the bootstrap Secret's.
func (r *registryFlags) registries(noRetry bool, brought store.Access) (*store.Registries, error) {
	access := brought
	access.PlainHTTP, access.NoRetry = r.plainHTTP, noRetry
	for _, file := range []struct {
		flag, path string
		into       *[]byte
	}{{"registry-config", r.config, &access.DockerConfig}, {"registry-ca", r.ca, &access.CA}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w", file.flag, err)}
		}
		*file.into = data
	}
	return store.NewRegistries(access)
}
