package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// node creates a Node and returns its name, because the test cluster has no Nodes. The handler acts as the Node's
// kubelet.
func (w *world) node(kubelet http.HandlerFunc) string {
	w.Helper()
	host := ownAddress(w.T)
	server := httptest.NewUnstartedServer(kubelet)
	require.NoError(w, server.Listener.Close())
	var err error
	server.Listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(w, err)
	server.StartTLS()
	w.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // the listener uses TCP
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	require.NoError(w, w.Create(w.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port) //nolint:gosec // a port
	require.NoError(w, w.Status().Update(w.Context(), node))
	return node.Name
}

// untilJob waits for the check's Job.
func (w *world) untilJob() (job batchv1.Job, err error) {
	err = wait.PollUntilContextCancel(w.Context(), 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var jobs batchv1.JobList
		err := w.List(ctx, &jobs, client.InNamespace(w.namespace), client.HasLabels{LabelCheck})
		if err == nil && len(jobs.Items) > 0 {
			job = jobs.Items[0]
		}
		return job.Name != "", err
	})
	return job, err
}

// failWithPod creates a Pod for the check's Job on a node, and then fails the Job.
func (w *world) failWithPod(node string) {
	created := make(chan struct{})
	go func() {
		defer close(created)
		job, err := w.untilJob()
		if err != nil {
			return
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: job.Name, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(&job, batchv1.SchemeGroupVersion.WithKind("Job")),
				},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: job.Spec.Template.Spec.Containers},
		}
		if err := w.Create(w.Context(), pod); err != nil {
			w.Errorf("create the Pod of the Job: %v", err)
		}
		<-w.finish(condition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded, ""),
			condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the backoff limit"))
	}()
	w.Cleanup(func() { <-created })
}

func TestFailedJobMessageContainsTheEndOfTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		kubelet http.HandlerFunc
		want    string
	}{
		"log with several lines": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "connected\nexpected 200, got 503\n")
		}, "connected expected 200, got 503"},
		"endless log": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1_000 {
				if _, err := io.WriteString(w, strings.Repeat("x", 10_000)); err != nil {
					return
				}
			}
		}, strings.Repeat("x", bundle.MaxCheckMessageBytes)},
		"log with terminal sequences": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "\x1b[31mfailed\x1b[0m\u202e")
		}, "failed"},
		"log that cannot be read": {http.NotFound, "the Job failed: Job has reached the backoff limit"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failWithPod(w.node(c.kubelet))
			m := w.measure(jobCheck(w.namespace, template))
			require.Equal(t, checks.Failure, m.Verdict, m.Message)
			require.Contains(t, m.Message, c.want)
			require.LessOrEqual(t, len(m.Message), bundle.MaxCheckMessageBytes)
			require.NotContains(t, m.Message, "\x1b")
		})
	}
}
