package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func TestMessageForUnstartedJobNamesTheReason(t *testing.T) {
	image := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ImagePullBackOff", Message: "no such image\x1b[2J",
	}}
	unscheduled := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0 of 1 nodes",
	}
	for name, c := range map[string]struct {
		account string
		status  *corev1.PodStatus
		want    string
	}{
		"no Pod":                            {"", nil, "the Job has no Pod: check ServiceAccount default and"},
		"no Pod, account from the template": {"tester", nil, "the Job has no Pod: check ServiceAccount tester and"},
		"image that cannot be pulled": {
			"", &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: image}}},
			"its Pod is waiting: ImagePullBackOff: no such image",
		},
		"Pod that cannot be scheduled": {
			"", &corev1.PodStatus{Conditions: []corev1.PodCondition{unscheduled}},
			"its Pod is waiting: Unschedulable: 0 of 1 nodes",
		},
		"Pod that runs": {"", &corev1.PodStatus{Phase: corev1.PodRunning}, "did not end within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Guard = func(*unstructured.Unstructured) error { return nil } })
			created := make(chan struct{})
			go func() {
				defer close(created)
				if job, err := w.untilJob(); err == nil && c.status != nil {
					w.addPod(&job, *c.status)
				}
			}()
			w.Cleanup(func() { <-created })
			check := jobCheck(w.namespace, `{"template":{"spec":{"serviceAccountName":"`+c.account+
				`","containers":[{"name":"test","image":"example.org/test"}]}}}`)
			check.Timeout.Duration = 2 * time.Second
			m := w.measure(check)
			require.Equal(t, checks.Unknown, m.Verdict)
			require.Contains(t, m.Message, "the measurement did not end within 2s")
			require.Contains(t, m.Message, c.want)
			require.NotContains(t, m.Message, "\x1b")
		})
	}
}

// addPod creates a Pod for a Job with this status.
func (w *world) addPod(job *batchv1.Job, status corev1.PodStatus) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: job.Name, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "test", Image: "example.org/test"}}},
	}
	if err := w.Create(w.Context(), pod); err != nil {
		w.Errorf("create the Pod of the Job: %v", err)
		return
	}
	pod.Status = status
	if err := w.Status().Update(w.Context(), pod); err != nil {
		w.Errorf("update the Pod of the Job: %v", err)
	}
}

// The rules are the same as for the module's objects. Otherwise, a Job would pull from the wrong registry, or run an
// image that is not released.
func TestImageRulesApplyToCheckJobs(t *testing.T) {
	const pinned = "example.org/test:1@sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	check := checks.Definition{Check: jobCheck("kyma-system",
		`{"template":{"spec":{"containers":[{"name":"test","image":"example.org/test:1"}]}}}`)}
	subject := Subject{Module: "keda", Version: "1.0.0"}
	subject.Images.Mirrors = map[string]string{"example.org": "mirror.local"}
	subject.Images.ImagePullSecret = "pull"
	subject.Images.Localized = []string{pinned}
	subject.Images.Pinned = true
	job, err := newJob(subject, check)
	require.NoError(t, err)
	pod := job.Spec.Template.Spec
	require.Equal(t, strings.Replace(pinned, "example.org", "mirror.local", 1), pod.Containers[0].Image)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, pod.ImagePullSecrets)

	subject.Images.Localized = nil
	_, err = newJob(subject, check)
	require.ErrorContains(t, err, "no digest is released for example.org/test:1")
}
