package reports

import (
	"bytes"
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

// NewImportReport returns the command import-report.
func NewImportReport() *cobra.Command {
	var to, format string
	var replace bool
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "import-report FILE", Short: "import a report file from a runtime", Args: cli.Exactly(1, "one file"),
		Long: "import-report uploads a report file from `skr-agent export-report` for the publisher.\n" +
			"The publisher verifies the report's signature later. The command refuses a report that is older than the " +
			"report in the\n" +
			"registry, and a report that has the same sequence but other content. With --replace, it imports such a " +
			"report anyway: use it\n" +
			"to replace a forged report.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("--to is required"))
			}
			place, _, err := registry.Open("--to", to, store.Access{})
			if err != nil {
				return err
			}
			fetched, err := ReadFile(args[0])
			if err != nil {
				return err
			}
			taken, err := importReport(cmd.Context(), place, fetched, time.Now(), replace)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return cli.Print(cmd.OutOrStdout(), format, taken, taken.draw)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "target location for the report: registry prefix HOST/PATH, or oci-layout:DIR")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace an existing report that is newer or has different content")
	cli.OutputFlag(cmd.Flags(), &format)
	registry.AddFlags(cmd.Flags())
	return cmd
}

type takenReport struct {
	Runtime  string    `json:"runtime"`
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	// Bundle is the sequence number of the applied bundle, or 0 if the runtime has not applied a bundle.
	Bundle int64 `json:"bundle"`
	Known  bool  `json:"known"`
}

func (r takenReport) draw(out io.Writer) {
	what := "was imported"
	if r.Known {
		what = "already exists"
	}
	cli.Printf(out, "report %d of runtime %s from %s %s; it refers to bundle %d\n", r.Sequence, r.Runtime,
		r.Time.Format(time.RFC3339), what, r.Bundle)
}

// importReport pushes a report to the registry. Without replace, it refuses a report that is older than the existing
// one. It does not verify signatures, because only the publisher has the runtime's key.
func importReport(
	ctx context.Context, place store.Store, fetched bundle.Fetched, now time.Time, replace bool,
) (takenReport, error) {
	report, err := bundle.ClaimedReport(fetched)
	if err != nil {
		return takenReport{}, err
	}
	taken := takenReport{Runtime: report.Runtime, Sequence: report.Sequence, Time: report.Time}
	if report.Observed != nil {
		taken.Bundle = report.Observed.Sequence
	}
	if err := bundle.CheckReportTime(report, now); err != nil {
		return taken, err
	}
	repository, err := place.Repository(ctx, bundle.ReportRepository(report.Runtime))
	if err != nil {
		return taken, err
	}
	before, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if err != nil && !errors.Is(err, store.ErrNotFound) && refusal.Of(err) == nil {
		return taken, err
	}
	if err == nil {
		if taken.Known = bytes.Equal(before.Bytes, fetched.Bytes); taken.Known {
			return taken, nil
		}
		if err := canFollow(report, before, now); err != nil && !replace {
			return taken, err
		}
	}
	return taken,
		store.PushReport(ctx, place, report.Runtime, bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes))
}

// canFollow returns an error if the report is older than the existing report, or has the same sequence number but
// different content.
func canFollow(report bundle.Report, before bundle.Fetched, now time.Time) error {
	existing, err := bundle.ClaimedReport(before)
	if err != nil || bundle.CheckReportTime(existing, now) != nil {
		return nil //nolint:nilerr // any report can replace an unreadable or refused report
	}
	switch {
	case existing.Sequence > report.Sequence:
		return &refusal.Error{Reason: refusal.Rollback, Detail: fmt.Sprintf(
			"report %d of runtime %s is older than the existing report %d; if the existing report is forged, use "+
				"--replace", report.Sequence, report.Runtime, existing.Sequence)}
	case existing.Sequence == report.Sequence:
		return &refusal.Error{Reason: refusal.Rollback, Detail: fmt.Sprintf(
			"report %d of runtime %s already exists with other content; if the existing report is forged, use "+
				"--replace", report.Sequence, report.Runtime)}
	}
	return nil
}
