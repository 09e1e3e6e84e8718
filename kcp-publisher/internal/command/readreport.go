package command

import (
	"context"
	"errors"
	"fmt"
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

// reportFlags select a signed report: a runtime's latest report in the registry, or a file.
type reportFlags struct {
	controlplane.Flags
	location, file, format string
	registry               cli.Registry
}

func (f *reportFlags) addTo(cmd *cobra.Command) {
	f.Add(cmd.Flags(), "the Kymas")
	f.addSource(cmd)
	cli.Complete(cmd, f.Runtimes, f.Modules)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return cli.Usage(errors.New("expected a runtime ID and optionally a module"))
		}
		return f.checkSource()
	}
}

func (f *reportFlags) addSource(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH of the reports, or oci-layout:DIR")
	flags.StringVar(&f.file, "file", "", "report file written by skr-agent export-report, instead of --location")
	f.registry.AddFlags(flags)
	cli.OutputFlag(flags, &f.format)
}

func (f *reportFlags) checkSource() error {
	if (f.location == "") == (f.file == "") {
		return cli.Usage(errors.New(
			"exactly one of --location and --file is required: the registry or the file with the report"))
	}
	return nil
}

// signedReport is a verified report, optionally of one module only.
type signedReport struct {
	Runtime string                  `json:"runtime"`
	Time    time.Time               `json:"time"`
	Modules []bundle.ReportedModule `json:"modules"`

	kyma     *v1beta2.Kyma
	checkRun *bundle.ReportedCheckRun
}

// readReport verifies the report with the key in the runtime's Kyma. The error is a *refusal.Error if another key
// signed the report.
func (f *reportFlags) readReport(cmd *cobra.Command, args []string) (signedReport, error) {
	ctx := cmd.Context()
	api, err := f.Connect()
	if err != nil {
		return signedReport{}, err
	}
	kyma, err := controlplane.FindKyma(ctx, api, f.Namespace, args[0])
	if err != nil {
		return signedReport{}, err
	}
	id := plan.RuntimeID(kyma)
	report, err := verifiedReport(kyma, func() (bundle.Fetched, error) { return f.fetch(ctx, id) })
	if err != nil {
		return signedReport{}, err
	}
	found := signedReport{
		Runtime: id, Time: report.Time, Modules: report.Modules, kyma: kyma, checkRun: report.CheckRun,
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

// verifiedReport verifies a report with the key in the runtime's Kyma.
func verifiedReport(kyma *v1beta2.Kyma, fetch func() (bundle.Fetched, error)) (bundle.AcceptedReport, error) {
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

func (f *reportFlags) fetch(ctx context.Context, id string) (bundle.Fetched, error) {
	if f.file != "" {
		return reportFile(f.file)
	}
	place, _, err := f.registry.Open("--location", f.location, store.Access{})
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
func (r signedReport) missingMessage(what string, details ...bundle.Detail) string {
	requested, _ := plan.ReportDetails(r.kyma) // an invalid annotation requests no details
	var names []string
	isRequested := true
	for _, d := range details {
		names = append(names, string(d))
		isRequested = isRequested && slices.Contains(requested, d)
	}
	if isRequested {
		return fmt.Sprintf("the report has no %s. They are requested: wait a minute for the next report", what)
	}
	return fmt.Sprintf("the report has no %s. To request them: kubectl annotate kyma %s -n %s %s=%s",
		what, r.kyma.Name, r.kyma.Namespace, v1beta2.AnnotationReportDetails, strings.Join(names, ","))
}
