package ui

import (
	"context"
	"errors"
	"html"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		"kubectl annotate kyma kyma-00000 -n kcp-system kyma-pull.dev/report-details=events,logs,objects") {
		t.Error("the page of a runtime without details does not show the command that requests them")
	}
}

func TestReportIsReadOnlyIfDetailsAreRequested(t *testing.T) {
	reads := 0
	p := &pages{Options: Options{Report: func(context.Context, *v1beta2.Kyma) (bundle.Report, error) {
		reads++
		return bundle.Report{}, errors.New("signed with another key")
	}}}
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "kcp-system"}}
	if got := p.detailsOf(t.Context(), kyma); got.Requested || got.Error != "" || reads != 0 {
		t.Errorf("without the annotation: got %+v after %d reads", got, reads)
	}
	kyma.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "logs"}
	if got := p.detailsOf(t.Context(), kyma); !got.Requested || got.Error != "signed with another key" || reads != 1 {
		t.Errorf("with the annotation: got %+v after %d reads", got, reads)
	}
	p.Report = nil
	if got := p.detailsOf(t.Context(), kyma); !got.Requested || got.Readable {
		t.Errorf("without a registry: got %+v", got)
	}
}
