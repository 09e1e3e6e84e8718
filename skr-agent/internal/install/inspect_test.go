package install

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const neverReady = `apiVersion: apps/v1
kind: Deployment
metadata: {name: broken}
spec:
  selector: {matchLabels: {app: broken}}
  template:
    metadata: {labels: {app: broken}}
    spec: {containers: [{name: app, image: example.org/app}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
`

// pod creates a Pod with the Deployment's labels and a container that does not start. If owner is nil, the Pod does not
// belong to the Deployment.
func (w *world) pod(name string, owner *metav1.OwnerReference) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: map[string]string{
			"app": "broken", appsv1.DefaultDeploymentUniqueLabelKey: "1",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.org/app"}}},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	require.NoError(w, w.client.Create(w.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", RestartCount: 3, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "password=hunter2"},
		},
	}}
	require.NoError(w, w.client.Status().Update(w.Context(), pod))
	return pod
}

func TestFailingModuleDetailsAreReported(t *testing.T) {
	w := newWorld(t)
	w.wants("sick", neverReady)
	w.eventually("the Deployment exists", func() bool {
		return len(w.manifest("sick").Status.Synced) == 2 && w.exists(&appsv1.Deployment{}, home, "broken")
	})
	controller := true
	pod := w.pod("broken-1-a", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "broken-1",
		UID: "x", Controller: &controller})
	w.pod("stranger", nil)
	w.pod("broken-server-1-a", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "broken-server-1",
		UID: "y", Controller: &controller})
	require.NoError(t, w.client.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: home, Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: home, Name: pod.Name, UID: pod.UID},
		Type:           "Warning", Reason: "BackOff", Message: "Back-off restarting failed container, token: hunter2",
		Count: 7, LastTimestamp: metav1.Now(),
	}))
	d := w.installer.Inspect(t.Context(), w.manifest("sick"), bundle.AllDetails())
	require.Len(t, d.Objects, 2)
	require.Equal(t, "Deployment", d.Objects[0].Kind)
	require.Equal(t, string(v1beta2.StateProcessing), d.Objects[0].State)
	require.Len(t, d.Failing, 2, "want the Deployment and its Pod, without other Pods with the same labels")
	found := d.Failing[1]
	require.Equal(t, "broken-1-a", found.Name)
	require.Contains(t, strings.Join(found.Conditions, "\n"),
		"container app is waiting after 3 restarts: CrashLoopBackOff: password=[masked]")
	require.Len(t, found.Events, 1)
	require.Contains(t, found.Events[0], "Warning BackOff (x7): Back-off restarting failed container, token: [masked]")
	require.Empty(t, d.Problem)
	require.Equal(t, []bundle.ContainerLog{{Container: "app", Previous: true}}, found.Logs,
		"the API server has no kubelet, so the log is empty")

	d = w.installer.Inspect(t.Context(), w.manifest("sick"), []bundle.Detail{bundle.DetailEvents})
	require.Empty(t, d.Objects)
	require.Len(t, d.Failing, 2)
	require.Empty(t, d.Failing[1].Logs)

	logs := w.installer.Inspect(t.Context(), w.manifest("sick"), []bundle.Detail{bundle.DetailLogs})
	require.Len(t, logs.Failing, 2)
	require.NotEmpty(t, logs.Failing[1].Logs)
	for _, f := range logs.Failing {
		require.Empty(t, slices.Concat(f.Conditions, f.Events),
			"want no conditions and Events, because only logs were requested")
	}
	require.WithinDuration(t, time.Now(), d.Taken, time.Minute)
}

func TestFailedConditionsOfAnObjectAreListed(t *testing.T) {
	condition := func(kind, status, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": "R", "message": message}
	}
	for name, c := range map[string]struct {
		conditions []any
		want       []string
	}{
		"object without conditions": {},
		"condition that is True":    {conditions: []any{condition("Available", "True", "m")}},
		"condition that is not True": {
			conditions: []any{condition("Available", "False", "m"), condition("Ready", "Unknown", "n")},
			want:       []string{"Available=False R: m", "Ready=Unknown R: n"},
		},
		"condition that reports a failure": {
			conditions: []any{condition("ReplicaFailure", "True", "m"), condition("Failed", "True", "n")},
			want:       []string{"ReplicaFailure=True R: m", "Failed=True R: n"},
		},
		"message with a secret": {
			conditions: []any{condition("Available", "False", "password=hunter2")},
			want:       []string{"Available=False R: password=[masked]"},
		},
		"too many conditions": {
			conditions: slices.Repeat([]any{condition("Ready", "False", "m")}, bundle.MaxDetailLines+1),
			want:       slices.Repeat([]string{"Ready=False R: m"}, bundle.MaxDetailLines),
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": c.conditions}}}
			require.Equal(t, c.want, failedConditions(o))
		})
	}
}
