package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
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
