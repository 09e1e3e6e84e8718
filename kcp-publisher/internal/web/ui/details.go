package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// details contains the objects and excerpts in a runtime's signed report.
type details struct {
	// Requested is false if the Kyma does not request details, and Readable is false without a registry.
	Requested, Readable bool
	// Reported is the time of the report, or zero if it cannot be read.
	Reported time.Time
	Modules  []bundle.ReportedModule
	Error    string
	// Request is the command that requests details.
	Request string
}

// detailsOf reads the report only if the Kyma requests details.
func (p *pages) detailsOf(ctx context.Context, kyma *v1beta2.Kyma) details {
	requested, err := plan.ReportDetails(kyma)
	found := details{
		Requested: err == nil && len(requested) > 0, Readable: p.Report != nil,
		Request: "kubectl annotate kyma " + kyma.Name + " -n " + kyma.Namespace + " " + v1beta2.AnnotationReportDetails +
			"=events,logs,objects",
	}
	if !found.Requested || !found.Readable {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, originsWithin)
	defer cancel()
	report, err := p.Report(ctx, kyma)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Reported = report.Time
	for _, m := range report.Modules {
		if m.Details != nil {
			found.Modules = append(found.Modules, m)
		}
	}
	slices.SortStableFunc(found.Modules, func(a, b bundle.ReportedModule) int {
		return cmp.Or(len(b.Details.Failing)-len(a.Details.Failing), strings.Compare(a.Name, b.Name))
	})
	return found
}
