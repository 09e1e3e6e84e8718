package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// createCrashingPod creates a Pod with a crashing container for the scaler's Deployment, and an Event about the
// crash, because the test cluster has no kubelet.
func createCrashingPod(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1beta2.RuntimeNamespace, Name: "scaler-manager-1-a",
			Labels: map[string]string{"app": "scaler", appsv1.DefaultDeploymentUniqueLabelKey: "1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
				Name: "scaler-manager-1", UID: "x", Controller: &controller}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.org/scaler"}}},
	}
	must(t, r.API.Create(t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "manager", RestartCount: 3, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "exit 1, DB_PASSWORD=hunter2"},
		},
	}}
	must(t, r.API.Status().Update(t.Context(), pod))
	must(t, r.API.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "crash"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           "Warning", Reason: "BackOff", Message: "Back-off restarting failed container", Count: 7,
		LastTimestamp: metav1.Now(),
	}))
}

func TestOperatorPromotesWithoutGitAndReadsFailureCause(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	must(t, f.Offer(ctx, sample.BrokenScaler("2.0.0")))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	setChannels(t, f, "1.7.0", "2.0.0")

	t.Run("kcp-publisher promote shows affected runtimes and asks for confirmation", func(t *testing.T) {
		command := []string{"promote", "scaler", "--from", "fast", "--to", "regular"}
		text, err := f.Ask(ctx, append(command, "--dry-run")...)
		if err != nil || !strings.Contains(text, "1 of 1 runtimes would change") || !strings.Contains(text,
			"one") || !strings.Contains(text, "nothing is changed") {
			t.Errorf("promote with --dry-run: got error %v and output\n%s", err, text)
		}
		if text, err := f.Ask(ctx, command...); err == nil || !strings.Contains(text,
			"promote scaler to 2.0.0 in channel regular, which changes 1 runtime: add --yes") {
			t.Errorf("promote without --yes: got error %v and output\n%s", err, text)
		}
		if text, err := f.Ask(ctx, append(command, "--yes")...); err != nil || !strings.Contains(text,
			"promoted: channel regular of module scaler has version 2.0.0") {
			t.Fatalf("promote with --yes: got error %v and output\n%s", err, text)
		}
		if text, err := f.Ask(ctx, append(command, "--yes")...); err != nil || !strings.Contains(text,
			"there is nothing to promote") {
			t.Errorf("repeated promotion: got error %v and output\n%s", err, text)
		}
	})
	must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateProcessing))
	read := func(args ...string) (string, error) { return f.Ask(ctx, append(args, "--location", f.Location())...) }
	if text, err := read("logs", "one"); err != nil || !strings.Contains(text,
		"kyma-pull.dev/report-details=events,logs") {
		t.Errorf("logs of a report without details: got error %v and output\n%s", err, text)
	}
	createCrashingPod(t, r)
	kyma, err := r.Record(ctx)
	must(t, err)
	change(t, f.Control, kyma, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "logs, events, objects"}
	})
	t.Run("kcp-publisher logs shows the signed excerpt without secrets", func(t *testing.T) {
		until(t, 60*time.Second, "the report contains the log excerpt", func() (bool, string) {
			text, err := read("logs", "one", "scaler")
			return err == nil && strings.Contains(text,
				"Pod kyma-system/scaler-manager-1-a") && strings.Contains(text, "exit 1, DB_PASSWORD=[masked]") &&
				strings.Contains(text, "Warning BackOff (x7)") && strings.Contains(text,
				"log of container manager, before its last restart\n      | (empty)") &&
				!strings.Contains(text, "hunter2"), text
		})
	})
	t.Run("kcp-publisher tree starts with objects that are not ready", func(t *testing.T) {
		text, err := read("tree", "one", "scaler")
		first, last := strings.Index(text, "Deployment kyma-system/scaler-manager"), strings.Index(text,
			"CustomResourceDefinition scalers.sample.kyma-pull.dev")
		if err != nil || first < 0 || last < first {
			t.Errorf("tree: error %v, unexpected output\n%s", err, text)
		}
	})
	t.Run("imported report is verified", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "report.json")
		if out, code := fleet.Run(ctx, f.Binaries().Agent, "export-report", "--location", f.Location(), "--runtime",
			"one", "-o", file); code != 0 {
			t.Fatalf("export-report: %s", out)
		}
		s := newPlainShell(t, f.Dir, f.Binaries(), "RUNTIME", "one", "MODULE", "scaler", "registry.example/fleet",
			f.Location(), "report.json", file)
		s.env = append(s.env, "KUBECONFIG="+f.ControlKubeconfig())
		for _, line := range lines(blocksOf(t, "docs/guides/failure-details.md", 1)[0]) {
			if text, err := s.try(line); err != nil || !strings.Contains(text, "scaler-manager") {
				t.Errorf("%s: %v\n%s", line, err, text)
			}
		}
		data, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, bytes.Replace(data, []byte(`\"sig\":\"M`), []byte(`\"sig\":\"N`), 1), 0o600))
		if text, err := f.Ask(ctx, "logs", "one", "--file", file); err == nil {
			t.Errorf("a report with an invalid signature is shown:\n%s", text)
		}
	})
	t.Run("status contains no log excerpt", func(t *testing.T) {
		kyma, err := r.Record(ctx)
		must(t, err)
		text, err := json.Marshal(kyma.Status)
		must(t, err)
		if bytes.Contains(text, []byte("BackOff")) {
			t.Errorf("the status contains the log excerpt: %s", text)
		}
	})
}
