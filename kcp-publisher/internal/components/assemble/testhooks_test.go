package assemble

import (
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

const (
	testPod = `apiVersion: v1
kind: Pod
metadata:
  name: "{{ .Release.Name }}-test-connection"
  labels: {app: mailer}
  annotations: {helm.sh/hook: test, sidecar.istio.io/inject: "false"}
spec:
  containers: [{name: wget, image: example.org/busybox:1, args: ["mailer:{{ .Values.port }}"]}]
`
	testJobText = `apiVersion: batch/v1
kind: Job
metadata: {name: smoke.full, annotations: {helm.sh/hook: "test-success, post-rollback"}}
spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: smoke, image: example.org/smoke:1}]}}}
`
	testConfig = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script, annotations: {helm.sh/hook: test}}\n"
)

func checkChart(t *testing.T, templates map[string]string) (Files, CheckResult) {
	t.Helper()
	chart := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: mailer\nversion: 1.0.0\n", "values.yaml": "port: 80\n",
		"templates/a.yaml": configMap,
	}
	for name, text := range templates {
		chart["templates/"+name] = text
	}
	files, err := Read(folder(t, chart))
	if err != nil {
		t.Fatal(err)
	}
	if err := files.SetValues(nil, []string{"port=8080"}); err != nil {
		t.Fatal(err)
	}
	checked, err := files.Check(t.Context(), "mailer", inProcess)
	if err != nil {
		t.Fatal(err)
	}
	return files, checked
}

func TestTestHooksBecomeChecks(t *testing.T) {
	files, checked := checkChart(t, map[string]string{"tests/pod.yaml": testPod, "tests/job.yaml": testJobText})
	if want := []string{"mailer-test-connection", "smoke-full"}; !slices.Equal(checked.Tests.Names, want) ||
		checked.Tests.Omitted != "" {
		t.Fatalf("got %+v, want checks %v", checked.Tests, want)
	}
	files.Checks = checked.Tests.File
	made, err := New("example.org/mailer", "1.0.0", "example.org", files, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	selected, err := bundle.Select(made.Descriptor)
	if err != nil || selected.Checks == nil {
		t.Fatalf("got selection %+v and error %v, want one with checks", selected, err)
	}
	if err := ocm.CheckContent(*selected.Checks, files.Checks); err != nil {
		t.Error(err)
	}
	found, err := checks.ParseShipped(files.Checks)
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{"template":{"metadata":{"annotations":{"sidecar.istio.io/inject":"false"},"labels":{"app":"mailer"}},` +
		`"spec":{"containers":[{"args":["mailer:8080"],"image":"example.org/busybox:1","name":"wget"}],` +
		`"restartPolicy":"Never"}}}`
	if c := found[0]; c.Job.Namespace != moduleNamespace || string(c.Job.Template.Raw) != pod ||
		c.SuccessThreshold != 1 || c.Timeout.Duration != bundle.MaxCheckTimeout {
		t.Errorf("got check %+v with template %s, want %s", c, c.Job.Template.Raw, pod)
	}
	if text := string(found[1].Job.Template.Raw); !strings.Contains(text, `"restartPolicy":"OnFailure"`) {
		t.Errorf("got template %s, want the template of the Job", text)
	}
}

func TestTestHooksThatCannotBecomeChecksAreNamed(t *testing.T) {
	change := func(text, old, next string) string { return strings.Replace(text, old, next, 1) }
	for name, c := range map[string]struct{ hooks, omitted string }{
		"no test hooks":                 {"", ""},
		"only a rollback hook":          {change(testJobText, "test-success, ", ""), ""},
		"test that needs a ConfigMap":   {testPod + "---\n" + testConfig, "ConfigMap script: only Pods and Jobs"},
		"test with a different kind":    {change(testJobText, "batch/v1", "example.org/v1"), "only Pods and Jobs"},
		"test in a different namespace": {change(testJobText, "{name: s", "{namespace: other, name: s"), "namespace other"},
		"test with a long name":         {change(testJobText, "smoke.full", strings.Repeat("a", 41)), "must be at most 40"},
		"test without spec": {
			change(testPod, "spec:", "status:"), "Pod mailer-test-connection: spec is required",
		},
		"test with an unknown field": {
			change(testPod, "spec:", "spec:\n  volume: []"), `unknown field "template.spec.volume"`,
		},
		"test with the agent's account": {
			change(testPod, "spec:", "spec:\n  serviceAccountName: skr-agent"), "as the agent",
		},
	} {
		_, checked := checkChart(t, map[string]string{"test.yaml": c.hooks})
		if got := checked.Tests; len(got.Names)+len(got.File) > 0 || (c.omitted == "") != (got.Omitted == "") ||
			!strings.Contains(got.Omitted, c.omitted) {
			t.Errorf("%s: got %+v, want no checks because of %q", name, got, c.omitted)
		}
	}
}
