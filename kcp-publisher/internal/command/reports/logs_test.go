package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestLogsAndTreePrintTheDetailsOfAReport(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	kyma := &v1beta2.Kyma{}
	kyma.Name, kyma.Namespace = "berlin", "kcp-system"
	r := Report{Runtime: "berlin", Time: now.Add(-time.Minute), kyma: kyma,
		Modules: []bundle.ReportedModule{{Name: "nats", State: v1beta2.StateReady}}}
	var out bytes.Buffer
	expect := func(when string, wants ...string) {
		t.Helper()
		out.Reset()
		r.drawLogs(&out, now)
		r.drawTree(&out, now)
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: output does not contain %q:\n%s", when, want, &out)
			}
		}
	}
	expect("without details", "60s ago", "all modules are ready", "kyma-pull.dev/report-details=objects")
	r.Modules[0].State = v1beta2.StateProcessing
	expect("without details of an unready module",
		"kubectl annotate kyma berlin -n kcp-system --overwrite kyma-pull.dev/report-details=events,logs\n")
	kyma.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "objects"}
	expect("with other details", "--overwrite kyma-pull.dev/report-details=events,logs,objects\n")
	kyma.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "everything"}
	expect("with an invalid annotation", "--overwrite kyma-pull.dev/report-details=events,logs\n",
		"--overwrite kyma-pull.dev/report-details=objects\n")
	kyma.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "events, logs,objects"}
	expect("before the report has the requested details", "no excerpts of failing modules. They are requested: wait",
		"no objects. They are requested: wait")
	r.Modules[0].State = v1beta2.StateReady
	deployment := bundle.DetailedObject{Group: "apps", Kind: "Deployment", Namespace: "kyma-system", Name: "keda",
		State: "Processing", Message: "0/1"}
	r.Modules = append(r.Modules, bundle.ReportedModule{Name: "keda", Version: "1.8.0", State: v1beta2.StateError,
		Message: "not ready", Details: &bundle.ModuleDetails{
			Objects: []bundle.DetailedObject{deployment, {Kind: "Namespace", Name: "keda",
				State: "Ready"}}, LeftOut: 2, Shortened: true, Problem: "list Pods: forbidden",
			Failing: []bundle.FailingObject{{
				DetailedObject: deployment, Conditions: []string{"Available=False"},
				Events: []string{"Warning BackOff"},
				Logs:   []bundle.ContainerLog{{Container: "app", Previous: true, Text: "one\ntwo"}},
			}},
		}})
	out.Reset()
	r.drawLogs(&out, now)
	r.drawTree(&out, now)
	for _, want := range []string{
		"module keda 1.8.0 is Error: not ready", "  Deployment kyma-system/keda: Processing: 0/1\n",
		"    condition  Available=False\n", "    event      Warning BackOff\n",
		"log of container app, before its last restart\n      | one\n      | two\n",
		"could not read everything: list Pods: forbidden", "2 further objects left out", "shortened",
		"├── Deployment kyma-system/keda", "Namespace keda", "└── 2 further objects left out",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
}
