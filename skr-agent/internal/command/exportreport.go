package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newExportReport() *cobra.Command {
	var location, runtime, file string
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "export-report", Short: "export the runtime's latest report to a file for the control plane",
		Long: "export-report reads the agent's latest signed report from its location and writes it to a file for " +
			"`kcp-publisher import-report`.",
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(
				cli.Required{Flag: "--location", Given: location != ""},
				cli.Required{Flag: "--runtime", Given: runtime != ""}, cli.Required{Flag: "-o", Given: file != ""},
			); err != nil {
				return err
			}
			if err := trust.CheckRuntimeID(runtime); err != nil {
				return cli.Usage(err)
			}
			place, _, err := registry.Open("--location", location, store.Access{})
			if err != nil {
				return err
			}
			fetched, err := newestReport(cmd.Context(), place, runtime)
			if err != nil {
				return err
			}
			return cli.WriteFile(file, fetched.Bytes)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&location, "location", "", "location of the agent's reports: registry prefix HOST/PATH, or "+
		"oci-layout:DIR")
	flags.StringVar(&runtime, "runtime", "", "runtime ID")
	flags.StringVarP(&file, "output", "o", "", "file to write")
	registry.AddFlags(flags)
	return cmd
}

func newestReport(ctx context.Context, place store.Store, runtime string) (bundle.Fetched, error) {
	repository, err := place.Reading(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return bundle.Fetched{}, err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if errors.Is(err, store.ErrNotFound) {
		return fetched, fmt.Errorf("no report from runtime %s in %s; check that its agent is running", runtime, place)
	}
	if err != nil {
		return fetched, err
	}
	report, err := bundle.ClaimedReport(fetched)
	if err == nil && report.Runtime != runtime {
		err = &refusal.Error{
			Reason: refusal.WrongRuntime,
			Detail: fmt.Sprintf("found a report of runtime %q instead of runtime %q", report.Runtime, runtime),
		}
	}
	return fetched, err
}
