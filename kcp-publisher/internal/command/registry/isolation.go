package registry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/isolation"
)

type registryCheckFlags struct {
	to, keys, format string
	runtimes         []string
	generation       int
	registry         cli.Registry
}

func newRegistryCheck() *cobra.Command {
	f := &registryCheckFlags{}
	cmd := &cobra.Command{
		Use: "check", Short: "check that runtimes are isolated in the registry (exit code 3: leak found)",
		Args: cli.Exactly(0, "no arguments"),
		Long: "check tries to read and change the data of one runtime with the credentials of another, and without " +
			"credentials. It requires two\n" +
			"runtimes with bundles, and the credentials of their agents: a docker config.json each, or the key " +
			"folder to derive their\n" +
			"passwords for the token service. It overwrites nothing, and deletes its test data if the credentials " +
			"allow it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "registry prefix HOST/PATH that bundles are published to")
	flags.StringArrayVar(&f.runtimes, "runtime", nil,
		"runtime ID, or ID=FILE with the docker config.json of its agent; required twice")
	flags.IntVar(&f.generation, "registry-password-generation", 1, "generation of the derived registry passwords")
	keyfolder.AddFlag(flags, &f.keys)
	cli.OutputFlag(flags, &f.format)
	f.registry.AddTLSFlags(flags)
	return cmd
}

func (f *registryCheckFlags) run(cmd *cobra.Command) error {
	if f.to == "" {
		return cli.Usage(errors.New("--to is required: the registry prefix of the bundles"))
	}
	if len(f.runtimes) != 2 {
		return cli.Usage(fmt.Errorf("--runtime must be set twice, got %s: the check tries to read the data of one "+
			"runtime with the credentials of the other", terminal.Pluralize(len(f.runtimes), "runtime")))
	}
	options := isolation.Options{Location: strings.Trim(f.to, "/"), Random: rand.Reader}
	var err error
	for i, runtime := range []*isolation.Runtime{&options.Own, &options.Other} {
		if *runtime, err = f.runtime(f.runtimes[i]); err != nil {
			return err
		}
	}
	if options.Anonymous, err = f.registries(nil); err != nil {
		return err
	}
	findings, left, err := isolation.Check(cmd.Context(), options)
	for _, what := range left {
		cli.Printf(cmd.ErrOrStderr(), "not deleted: %s\n", what)
	}
	if len(left) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"the two runtimes cannot delete the remaining data: garbage collection removes unreferenced "+
				"blobs; "+
				"delete tags with the credentials of the registry's owner")
	}
	if len(findings) == 0 {
		return err
	}
	drawn := cli.Print(cmd.OutOrStdout(), f.format, findings, func(out io.Writer) {
		t := terminal.NewTable(out)
		t.AppendHeader(table.Row{"TRIED TO", "REQUEST", "STATUS", ""})
		for _, finding := range findings {
			verdict := "refused"
			switch {
			case finding.Leaks:
				verdict = "LEAKS"
			case finding.LeftOver:
				verdict = "left over"
			}
			t.AppendRow(table.Row{finding.What, finding.Request, finding.Status, verdict})
		}
		t.Render()
		fmt.Fprintln(out, summary(findings))
	})
	return errors.Join(err, drawn)
}

func summary(findings []isolation.Finding) string {
	refused, leftOver := 0, 0
	for _, f := range findings {
		switch {
		case f.LeftOver:
			leftOver++
		case !f.Leaks:
			refused++
		}
	}
	line := fmt.Sprintf("%d of %d attempts were refused", refused, len(findings))
	if leftOver > 0 {
		line += fmt.Sprintf("; %d are inconclusive, because data from an earlier check or mount exists", leftOver)
	}
	return line
}

func (f *registryCheckFlags) runtime(text string) (isolation.Runtime, error) {
	id, path, found := strings.Cut(text, "=")
	if err := trust.CheckRuntimeID(id); err != nil {
		return isolation.Runtime{}, cli.Usage(fmt.Errorf("--runtime %s: %w", text, err))
	}
	var config []byte
	var err error
	if found {
		if config, err = os.ReadFile(path); err != nil {
			return isolation.Runtime{}, cli.Usage(fmt.Errorf("--runtime %s: %w", id, err))
		}
	} else if config, err = keyfolder.RegistryCredentials(nil, f.keys, f.to, id, f.generation); err != nil {
		return isolation.Runtime{}, err
	}
	registries, err := f.registries(config)
	return isolation.Runtime{ID: id, Registries: registries}, err
}

func (f *registryCheckFlags) registries(config []byte) (*store.Registries, error) {
	return f.registry.Registries(store.Access{DockerConfig: config, NoRetry: true})
}
