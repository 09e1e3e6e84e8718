package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newExportReport() *cobra.Command {
	var location, runtime, file string
	var qr bool
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "export-report", Short: "writes the runtime's newest report into a file that is carried to the control plane",
		Long: "export-report takes the report that the agent put at its location, as the agent signed it, for `kcp-publisher import-report`.",
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if location == "" || runtime == "" || file == "" && !qr {
				return cli.Usage(errors.New("--location, --runtime, and -o or --qr are required"))
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
			if file != "" {
				if err := os.WriteFile(file, fetched.Bytes, 0o644); err != nil {
					return err
				}
			}
			if qr {
				return printCode(cmd.OutOrStdout(), fetched)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&location, "location", "", "where the agent reports: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&runtime, "runtime", "", "runtime id")
	flags.StringVarP(&file, "output", "o", "", "file to write")
	flags.BoolVar(&qr, "qr", false, "print the report as a QR code, whose text `kcp-publisher import-report` takes as well")
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
		return fetched, fmt.Errorf("runtime %s has not reported to %s yet: does its agent run?", runtime, place)
	}
	if err != nil {
		return fetched, err
	}
	report, err := bundle.ClaimedReport(fetched)
	if err == nil && report.Runtime != runtime {
		err = &refusal.Error{Reason: refusal.WrongRuntime, Detail: fmt.Sprintf("report is about runtime %q, this is the place of %q", report.Runtime, runtime)}
	}
	return fetched, err
}

// printCode draws the short form of a report as a QR code in half blocks.
func printCode(out io.Writer, fetched bundle.Fetched) error {
	text, err := bundle.ReportText(fetched)
	if err != nil {
		return err
	}
	if len(text) > bundle.MaxReportTextBytes {
		return fmt.Errorf("the report is %d letters long, a QR code holds %d: carry it as a file", len(text), bundle.MaxReportTextBytes)
	}
	qrterminal.GenerateWithConfig(text, qrterminal.Config{Level: qrterminal.L, Writer: out, HalfBlocks: true, QuietZone: 4,
		BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE, BlackWhiteChar: qrterminal.BLACK_WHITE, WhiteBlackChar: qrterminal.WHITE_BLACK})
	return nil
}
