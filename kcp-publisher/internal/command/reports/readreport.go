// Package reports implements the commands that read and import runtimes' signed reports.
package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// ReportFlags selects a signed report: a runtime's latest report in the registry, or a file.
type ReportFlags struct {
	controlplane.Flags
	Location, File, Format string
	Registry               cli.Registry
}

func (f *ReportFlags) addTo(cmd *cobra.Command) {
	f.Add(cmd.Flags(), "the Kymas")
	f.AddSource(cmd)
	cli.Complete(cmd, f.Runtimes, f.Modules)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return cli.Usage(errors.New("expected a runtime ID and optionally a module"))
		}
		return f.CheckSource()
	}
}

// AddSource adds the flags that select the report and its location.
func (f *ReportFlags) AddSource(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Location, "location", "", "the reports' registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&f.File, "file", "", "report file written by skr-agent export-report, instead of --location")
	f.Registry.AddFlags(flags)
	cli.OutputFlag(flags, &f.Format)
}

// CheckSource returns a usage error unless the flags select one source.
func (f *ReportFlags) CheckSource() error {
	if (f.Location == "") == (f.File == "") {
		return cli.Usage(errors.New(
			"exactly one of --location and --file is required: the registry or the file with the report"))
	}
	return nil
}

// Report is a verified report, optionally limited to one module.
type Report struct {
	Runtime string                  `json:"runtime"`
	Time    time.Time               `json:"time"`
	Modules []bundle.ReportedModule `json:"modules"`

	kyma     *v1beta2.Kyma
	CheckRun *bundle.ReportedCheckRun
}

// Read verifies the report with the key in the runtime's Kyma. The error is a *refusal.Error if another key
// signed the report.
func (f *ReportFlags) Read(cmd *cobra.Command, args []string) (Report, error) {
	ctx := cmd.Context()
	api, err := f.Connect()
	if err != nil {
		return Report{}, err
	}
	kyma, err := controlplane.FindKyma(ctx, api, f.Namespace, args[0])
	if err != nil {
		return Report{}, err
	}
	id := plan.RuntimeID(kyma)
	report, err := Verify(kyma, func() (bundle.Fetched, error) { return f.Fetch(ctx, id) })
	if err != nil {
		return Report{}, err
	}
	found := Report{
		Runtime: id, Time: report.Time, Modules: report.Modules, kyma: kyma, CheckRun: report.CheckRun,
	}
	if len(args) == 2 {
		found.Modules = slices.DeleteFunc(found.Modules,
			func(m bundle.ReportedModule) bool { return m.Name != args[1] })
		if len(found.Modules) == 0 {
			return found, fmt.Errorf("runtime %s: the report has no module %s%s", id, args[1], cli.ClosestNames(args[1],
				moduleNames(report.Modules)))
		}
	}
	return found, nil
}

// Verify verifies a report with the key in the runtime's Kyma.
func Verify(kyma *v1beta2.Kyma, fetch func() (bundle.Fetched, error)) (bundle.AcceptedReport, error) {
	id, from := plan.RuntimeID(kyma), plan.Rules{}.Reporter(kyma, nil, time.Now())
	if from.Key == nil {
		return bundle.AcceptedReport{}, fmt.Errorf(
			"runtime %s has not enrolled: the control plane has no key to verify its report", id)
	}
	from.LastSequence, from.Enroll = 0, nil
	fetched, err := fetch()
	if err != nil {
		return bundle.AcceptedReport{}, fmt.Errorf("runtime %s: read report: %w", id, err)
	}
	report, err := bundle.VerifyReport(fetched, from)
	if err != nil {
		return bundle.AcceptedReport{}, fmt.Errorf("runtime %s: %w", id, err)
	}
	return report, nil
}

// Fetch reads the report of a runtime without verifying it.
func (f *ReportFlags) Fetch(ctx context.Context, id string) (bundle.Fetched, error) {
	if f.File != "" {
		return ReadFile(f.File)
	}
	place, _, err := f.Registry.Open("--location", f.Location, store.Access{})
	if err != nil {
		return bundle.Fetched{}, err
	}
	repository, err := place.Reading(ctx, bundle.ReportRepository(id))
	if err != nil {
		return bundle.Fetched{}, err
	}
	return store.Fetch(ctx, repository, bundle.TagLatest)
}

func moduleNames(modules []bundle.ReportedModule) []string {
	names := make([]string, 0, len(modules))
	for _, m := range modules {
		names = append(names, m.Name)
	}
	return names
}

// missingMessage returns a message about details that the report does not contain. It distinguishes details that the
// Kyma does not request from details that the agent has not reported yet.
func (r Report) missingMessage(what string, details ...bundle.Detail) string {
	requested, _ := plan.ReportDetails(r.kyma) // an invalid annotation does not request details
	isMissing := func(d bundle.Detail) bool { return !slices.Contains(requested, d) }
	if !slices.ContainsFunc(details, isMissing) {
		return fmt.Sprintf("the report has no %s. They are requested: wait a minute for the next report", what)
	}
	var names []string
	for _, d := range bundle.AllDetails() {
		if slices.Contains(requested, d) || slices.Contains(details, d) {
			names = append(names, string(d))
		}
	}
	return fmt.Sprintf("the report has no %s. To request them: kubectl annotate kyma %s -n %s --overwrite %s=%s",
		what, r.kyma.Name, r.kyma.Namespace, v1beta2.AnnotationReportDetails, strings.Join(names, ","))
}

// ReadFile reads a report from a file without verifying it.
func ReadFile(path string) (bundle.Fetched, error) {
	file, err := os.Open(path)
	if err != nil {
		return bundle.Fetched{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, bundle.MaxManifestBytes+1))
	if err != nil {
		return bundle.Fetched{}, err
	}
	fetched, err := bundle.ReadReportFile(data)
	if err == nil {
		_, err = bundle.ClaimedReport(fetched)
	}
	if err != nil {
		return fetched, fmt.Errorf("%s: not a report file from `skr-agent export-report`: %w", path, err)
	}
	return fetched, nil
}
