package ui

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// sampleReport returns a report with a failing module, whose log contains a hostile line.
func sampleReport(_ context.Context, _ *v1beta2.Kyma) (bundle.Report, error) {
	operator := bundle.DetailedObject{Group: "apps", Kind: "Deployment", Namespace: "kyma-system",
		Name: "keda-operator", State: "Error", Message: "container keda-operator crashes (CrashLoopBackOff)"}
	return bundle.Report{Time: noon.Add(-time.Minute), Modules: []bundle.ReportedModule{
		{Name: "serverless", Version: "2.1.0", State: v1beta2.StateReady},
		{Name: "keda", Version: "1.8.0", State: v1beta2.StateError, Details: &bundle.ModuleDetails{
			Failing: []bundle.FailingObject{{
				DetailedObject: operator,
				Conditions:     []string{"Available=False MinimumReplicasUnavailable: 0 of 1 replicas are available"},
				Events:         []string{"2 min ago BackOff: Back-off restarting failed container"},
				Logs: []bundle.ContainerLog{{Container: "keda-operator", Previous: true,
					Text: "starting\nfatal: no route to the metrics API\n" + hostile + "\n"}},
			}},
			Objects: []bundle.DetailedObject{operator, {Kind: "ServiceAccount", Namespace: "kyma-system",
				Name: "keda-operator", State: "Ready"}},
			LeftOut: 3, Problem: "cannot list Pods",
		}},
	}}, nil
}

func TestRuntimePageShowsObjectsAndExcerpts(t *testing.T) {
	s := serve(t, sampleFleet(10, false), nil)
	_, body, _ := s.get(t, "/runtimes/r-00001")
	shown := html.UnescapeString(body)
	for _, want := range []string{"Objects and excerpts", "Deployment kyma-system/keda-operator",
		"Available=False MinimumReplicasUnavailable", "Back-off restarting", "keda-operator, before its last restart",
		"starting\nfatal: no route to the metrics API\n", "2 objects", "3 further objects left out",
		"cannot list Pods"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Contains(body, hostile) || strings.Contains(body, "\x1b") {
		t.Error("the page contains a log line unescaped")
	}
	_, body, _ = s.get(t, "/runtimes/r-00000")
	if !strings.Contains(html.UnescapeString(body),
		"kubectl annotate kyma kyma-00000 -n kcp-system --overwrite kyma-pull.dev/report-details=events,logs,objects") {
		t.Error("the page of a runtime without details does not show the command that requests them")
	}
}

// reportPages returns pages that count how often they read a report, and a viewer's request.
func reportPages(missing string, unchecked error) (p *pages, r pageRequest, reads *atomic.Int32) {
	reads = &atomic.Int32{}
	p = &pages{reports: newReports(), known: newOriginCache(), Options: Options{
		Now: func() time.Time { return noon },
		Report: func(context.Context, *v1beta2.Kyma) (bundle.Report, error) {
			reads.Add(1)
			return bundle.Report{}, errors.New("signed with another key")
		},
	}}
	r = pageRequest{
		Request: httptest.NewRequest(http.MethodGet, "/runtimes/one", nil),
		viewer: &Viewer{MissingForReport: func(context.Context, client.ObjectKey) (string, error) {
			return missing, unchecked
		}},
	}
	return p, r, reads
}

func kymaWithDetails(details string) *v1beta2.Kyma {
	return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Name: "one", Namespace: "kcp-system", Annotations: map[string]string{v1beta2.AnnotationReportDetails: details},
	}}
}

func TestReportIsReadOnlyIfDetailsAreRequested(t *testing.T) {
	p, r, reads := reportPages("", nil)
	if got := p.readDetails(r, kymaWithDetails("")); got.Requested || got.Error != "" || reads.Load() != 0 {
		t.Errorf("without the annotation: got %+v after %d reads", got, reads.Load())
	}
	if got := p.readDetails(r, kymaWithDetails("logs")); !got.Requested || got.Error != "signed with another key" ||
		reads.Load() != 1 {
		t.Errorf("with the annotation: got %+v after %d reads", got, reads.Load())
	}
	p.Report = nil
	if got := p.readDetails(r, kymaWithDetails("logs")); !got.Requested || got.Readable {
		t.Errorf("without a registry: got %+v", got)
	}
}

func TestReportIsReadOnlyForViewersWithPermission(t *testing.T) {
	p, r, reads := reportPages("kubectl auth can-i get kymas", nil)
	got := p.readDetails(r, kymaWithDetails("logs"))
	if got.Missing != "kubectl auth can-i get kymas" || got.Error != "" {
		t.Errorf("without the permission: got %+v", got)
	}
	r.viewer.MissingForReport = nil
	if got := p.readDetails(r, kymaWithDetails("logs")); got.Error != "you do not have permission to read reports" {
		t.Errorf("without a check: got %+v", got)
	}
	if reads.Load() != 0 {
		t.Errorf("the report was read %d times", reads.Load())
	}
	p, r, reads = reportPages("", errors.New("connection refused"))
	got = p.readDetails(r, kymaWithDetails("logs"))
	if !strings.Contains(got.Error, "did not respond") || reads.Load() != 0 {
		t.Errorf("without a response: got %+v after %d reads", got, reads.Load())
	}
}

func TestViewersShareOneReadOfAReport(t *testing.T) {
	p, r, reads := reportPages("", nil)
	now := noon
	p.Now = func() time.Time { return now }
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { p.readDetails(r, kymaWithDetails("logs")) })
	}
	wait.Wait()
	if reads.Load() != 1 {
		t.Errorf("20 viewers caused %d reads", reads.Load())
	}
	other := kymaWithDetails("logs")
	other.Name, other.Labels = "rival", map[string]string{v1beta2.LabelRuntimeID: "one"}
	p.readDetails(r, other)
	if reads.Load() != 2 {
		t.Errorf("a Kyma with the same runtime ID got the report of another Kyma")
	}
	now = now.Add(reportFor)
	p.readDetails(r, kymaWithDetails("logs"))
	if reads.Load() != 3 {
		t.Errorf("an old report was shown again after %d reads", reads.Load())
	}
}
