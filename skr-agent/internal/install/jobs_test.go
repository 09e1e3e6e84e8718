package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestPodRunsOncePerVersion(t *testing.T) {
	w := newWorld(t)
	content := func(label string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: migrate, labels: {step: " + label + "}}\n" +
			"spec: {restartPolicy: OnFailure, containers: [{name: c, image: example.org/x}]}\n---\n" +
			aConfigMap("settings")
	}
	pod := &corev1.Pod{}
	exists := func() bool { return w.exists(pod, home, "migrate") }
	complete := func() {
		w.Helper()
		w.eventually("the Pod exists", exists)
		require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			require.True(t, exists())
			pod.Status.Phase = corev1.PodSucceeded
			return w.client.Status().Update(t.Context(), pod)
		}))
		w.state("migration", v1beta2.StateReady, "")
	}
	remove := func() {
		w.Helper()
		require.NoError(t, w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
	revert := func(when string) {
		w.Helper()
		require.NoError(t, w.client.Delete(t.Context(), configMap("settings", nil)))
		w.eventually("drift is reverted "+when, func() bool { return w.exists(&corev1.ConfigMap{}, home, "settings") })
		require.False(t, exists(), "the Pod must not run again "+when)
		w.state("migration", v1beta2.StateReady, "")
	}
	w.wants("migration", content("first"), version("1.0.0"))
	w.state("migration", v1beta2.StateProcessing, "Pending")

	t.Log("a Pod that is deleted before it completes is created again")
	w.eventually("the Pod exists", exists)
	first := pod.UID
	remove()
	w.eventually("the Pod is created again", func() bool { return exists() && pod.UID != first })
	complete()

	t.Log("changes of the completed Pod are reverted")
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		require.True(t, exists())
		pod.Labels["step"] = "changed"
		return w.client.Update(t.Context(), pod)
	}))
	w.eventually("the label is reverted", func() bool { return exists() && pod.Labels["step"] == "first" })

	remove()
	revert("after its deletion")
	w.halt()
	w.start()
	revert("after a restart")

	t.Log("the Pod runs for the next version")
	w.wants("migration", content("second"), version("2.0.0"))
	w.eventually("the Pod runs again", exists)
	complete()

	t.Log("the module is removed after its Pod")
	remove()
	w.remove("migration")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "migration") })
}

// The API server rejects another object in the module, so the agent does not record the version as applied. While the
// agent is down, the Job completes and Kubernetes deletes it.
func TestJobThatExpiredWhileTheAgentWasDownDoesNotRunAgain(t *testing.T) {
	w := newWorld(t)
	job := &batchv1.Job{}
	content := input(t, "job-with-ttl", "jobttl", "1.0.0", "a.yaml")
	refused := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused, namespace: absent}\n"
	w.wants("jobttl", content+refused, version("1.0.0"))
	w.eventually("the Job exists", func() bool { return w.exists(job, home, "jobttl-migrate") })
	w.state("jobttl", v1beta2.StateError, "absent")
	require.Nil(t, record.ReadUnverified(w.manifest("jobttl")).Applied)
	w.halt()
	require.NoError(t, w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	require.NoError(t, w.client.Delete(t.Context(), configMap("jobttl-settings", nil)))
	w.start()
	w.eventually("the other objects are applied", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "jobttl-settings")
	})
	require.NoError(t, w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "absent"}}))
	w.state("jobttl", v1beta2.StateReady, "")
	require.False(t, w.exists(job, home, "jobttl-migrate"), "the Job must not run again")
	require.Empty(t, record.ReadUnverified(w.manifest("jobttl")).CompletedJobs.Started)

	w.wantsInput("job-with-ttl", "jobttl", "2.0.0")
	w.eventually("the Job runs for the next version", func() bool { return w.exists(job, home, "jobttl-migrate") })
}

// The Job of version 1.0.0 is deleted to create it again. This deletion must not count as the completion of the Job of
// version 2.0.0, which is created only after another object has been deleted.
func TestRecreatedJobRunsForItsVersion(t *testing.T) {
	w := newWorld(t)
	content := func(value string) string {
		return `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: kyma-system, annotations: {kyma-pull.dev/recreate: "true"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.org/x, args: [` + value + `]}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: held, namespace: kyma-system, annotations: {kyma-pull.dev/recreate: "true"}}
immutable: true
data: {version: ` + value + `}
`
	}
	job := &batchv1.Job{}
	exists := func() bool { return w.exists(job, home, "migrate") }
	w.wants("migration", content("first"), version("1.0.0"))
	w.eventually("the Job exists", exists)
	first, now := job.UID, metav1.Now()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		require.True(t, exists())
		job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
		}
		return w.client.Status().Update(t.Context(), job)
	}))
	w.state("migration", v1beta2.StateReady, "")
	held := &corev1.ConfigMap{}
	require.True(t, w.exists(held, home, "held"))
	held.Finalizers = []string{"example.org/held"}
	require.NoError(t, w.client.Update(t.Context(), held))

	w.wants("migration", content("second"), version("2.0.0"))
	w.state("migration", v1beta2.StateProcessing, "waiting for deletion before recreating")
	require.False(t, exists(), "the Job of version 1.0.0 still exists")
	require.True(t, w.exists(held, home, "held"))
	held.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), held))
	w.eventually("the Job of version 2.0.0 exists", func() bool { return exists() && job.UID != first })

	t.Log("the Job is created again, because it did not complete")
	second := job.UID
	require.NoError(t, w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.eventually("the Job exists again", func() bool { return exists() && job.UID != second })
}
