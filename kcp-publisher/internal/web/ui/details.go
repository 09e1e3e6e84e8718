package ui

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// reportFor limits the age of a report's cached copy, which all viewers share. A live page requests its report
	// repeatedly.
	reportFor    = 10 * time.Second
	reportWithin = 10 * time.Second
	// maxReportsBytes limits the memory for cached reports. Each runtime chooses the size of its report.
	maxReportsBytes = 32 << 20
)

// reports caches the runtimes' latest reports for a short time, and reads each report once for all viewers.
type reports struct {
	// Each entry is for one Kyma. A runtime ID is not sufficient as the key, because two Kymas can have the same
	// runtime ID label, and the viewer's permission applies to only one of these Kymas.
	known   *memo.Memo[string, knownReport]
	reading singleflight.Group
}

func newReports() reports {
	return reports{known: memo.New(memo.Limit{Bytes: maxReportsBytes}, func(key string, found knownReport) int {
		return len(key) + memo.MemoryOf(found.report) + memo.EntryBytes
	})}
}

type knownReport struct {
	report bundle.Report
	err    error
	at     time.Time
}

func (c *reports) of(
	ctx context.Context, kyma *v1beta2.Kyma, now func() time.Time,
	read func(context.Context, *v1beta2.Kyma) (bundle.Report, error),
) (bundle.Report, error) {
	id := client.ObjectKeyFromObject(kyma).String() + "/" + string(kyma.UID)
	if found, fresh := c.cached(id, now()); fresh {
		return found.report, found.err
	}
	result := c.reading.DoChan(id, func() (any, error) {
		if found, fresh := c.cached(id, now()); fresh { // another read ended in between
			return found.report, found.err
		}
		// The viewer who caused the read can leave while others wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
		defer cancel()
		report, err := read(ctx, kyma)
		c.known.Put(id, knownReport{report, err, now()})
		return report, err
	})
	select {
	case <-ctx.Done():
		return bundle.Report{}, ctx.Err()
	case got := <-result:
		report, _ := got.Val.(bundle.Report)
		return report, got.Err
	}
}

func (c *reports) cached(id string, now time.Time) (found knownReport, fresh bool) {
	found, known := c.known.Get(id)
	return found, known && now.Sub(found.at) < reportFor
}

type details struct {
	// Requested is false if the Kyma does not request details, and Readable is false without a registry.
	Requested, Readable bool
	// Missing is the command that checks the permission to read reports if the viewer lacks it.
	Missing string
	// Reported is the report's time, or zero if it cannot be read.
	Reported time.Time
	Modules  []bundle.ReportedModule
	Error    string
	// Request is the command that requests details.
	Request string
}

// readDetails reads the report only if the Kyma requests details and the viewer may read reports.
func (p *pages) readDetails(r pageRequest, kyma *v1beta2.Kyma) details {
	requested, err := plan.ReportDetails(kyma)
	found := details{
		Requested: err == nil && len(requested) > 0, Readable: p.Report != nil,
		Request: "kubectl annotate kyma " + kyma.Name + " -n " + kyma.Namespace + " --overwrite " +
			v1beta2.AnnotationReportDetails +
			"=events,logs,objects",
	}
	if !found.Requested || !found.Readable {
		return found
	}
	if found.Missing, err = p.missingForReport(r, kyma); err != nil {
		found.Error = err.Error()
	}
	if found.Missing != "" || err != nil {
		return found
	}
	report, err := p.reports.of(r.Context(), kyma, p.Now, p.Report)
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

// missingForReport returns "" if the viewer may read the report. Otherwise, it returns the command that checks this
// permission.
func (p *pages) missingForReport(r pageRequest, kyma *v1beta2.Kyma) (string, error) {
	if r.viewer.MissingForReport == nil {
		return "", errors.New("you do not have permission to read reports")
	}
	missing, err := r.viewer.MissingForReport(r.Context(), client.ObjectKeyFromObject(kyma))
	if err != nil {
		p.Log.Error(err, "failed to check whether a viewer may read a report", "viewer", r.viewer.Name)
		return "", errors.New("the control plane did not respond to the permission check")
	}
	return missing, nil
}
