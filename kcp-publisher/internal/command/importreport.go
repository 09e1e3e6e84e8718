package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newImportReport() *cobra.Command {
	var to, format string
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "import-report FILE", Short: "import a report file from a runtime", Args: cli.Exactly(1, "one file"),
		Long: "import-report uploads a report file of `skr-agent export-report` for the publisher.\n" +
			"The publisher verifies its signature later. The command refuses a report that is older than the " +
			"existing one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("--to is required"))
			}
			place, _, err := registry.Open("--to", to, store.Access{})
			if err != nil {
				return err
			}
			fetched, err := reportFile(args[0])
			if err != nil {
				return err
			}
			taken, err := importReport(cmd.Context(), place, fetched)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return cli.Print(cmd.OutOrStdout(), format, taken, taken.draw)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "target location of the report: registry prefix HOST/PATH, or oci-layout:DIR")
	cli.OutputFlag(cmd.Flags(), &format)
	registry.AddFlags(cmd.Flags())
	return cmd
}

// takenReport is the output of `import-report`.
type takenReport struct {
	Runtime  string    `json:"runtime"`
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	// Bundle is the sequence of the bundle that the runtime has applied, or 0.
	Bundle int64 `json:"bundle"`
	Known  bool  `json:"known"`
}

func (r takenReport) draw(out io.Writer) {
	what := "imported"
	if r.Known {
		what = "already exists"
	}
	fmt.Fprintf(out, "report %d of runtime %s from %s %s; its bundle is %d\n", r.Sequence, r.Runtime,
		r.Time.Format(time.RFC3339), what, r.Bundle)
}

// importReport pushes a report unless a newer one exists. The publisher, which knows the runtime's key, verifies it
// later.
func importReport(ctx context.Context, place store.Store, fetched bundle.Fetched) (takenReport, error) {
	report, err := bundle.ClaimedReport(fetched)
	if err != nil {
		return takenReport{}, err
	}
	taken := takenReport{Runtime: report.Runtime, Sequence: report.Sequence, Time: report.Time}
	if report.Observed != nil {
		taken.Bundle = report.Observed.Sequence
	}
	repository, err := place.Repository(ctx, bundle.ReportRepository(report.Runtime))
	if err != nil {
		return taken, err
	}
	before, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return taken, err
	}
	if err == nil {
		// An unreadable report is replaced.
		if known, err := bundle.ClaimedReport(before); err == nil {
			if known.Sequence > report.Sequence {
				return taken, &refusal.Error{Reason: refusal.Rollback, Detail: fmt.Sprintf(
					"report %d of runtime %s is older than the existing report %d", report.Sequence, report.Runtime,
					known.Sequence)}
			}
			if taken.Known = known.Sequence == report.Sequence; taken.Known {
				return taken, nil
			}
		}
	}
	return taken,
		store.PushReport(ctx, place, report.Runtime, bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes))
}
