package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

const template = `{"template":{"spec":{"containers":[{"name":"test","image":"example.org/test"}]}}}`

func jobCheck(namespace, template string) fleet.Check {
	return fleet.Check{
		Timeout: metav1.Duration{Duration: 20 * time.Second},
		Job:     &fleet.JobCheck{Namespace: namespace, Template: runtime.RawExtension{Raw: []byte(template)}},
	}
}

// finish sets the conditions of the check's Job, in place of the Job controller, which does not run in these tests. It
// sends the Job to the returned channel.
func (w *world) finish(conditions ...batchv1.JobCondition) chan batchv1.Job {
	finished := make(chan batchv1.Job, 1)
	go func() {
		_ = wait.PollUntilContextCancel(w.Context(), 50*time.Millisecond, true,
			func(ctx context.Context) (bool, error) {
				var jobs batchv1.JobList
				if err := w.List(ctx, &jobs, client.InNamespace(w.namespace),
					client.HasLabels{LabelCheck}); err != nil ||
					len(jobs.Items) == 0 {
					return false, err
				}
				job := jobs.Items[0]
				now := metav1.Now()
				job.Status.StartTime, job.Status.Conditions = &now, conditions
				if conditions[len(conditions)-1].Type == batchv1.JobComplete {
					job.Status.CompletionTime, job.Status.Succeeded = &now, 1
				}
				if err := w.Status().Update(ctx, &job); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					return false, nil
				} else if err != nil {
					return false, err
				}
				finished <- job
				return true, nil
			})
	}()
	return finished
}

func condition(kind batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	return batchv1.JobCondition{
		Type:               kind,
		Status:             corev1.ConditionTrue,
		Reason:             reason,
		Message:            message,
		LastTransitionTime: metav1.Now(),
	}
}

func TestCompletedJobCountsAsSuccessAndIsDeleted(t *testing.T) {
	w := newWorld(t)
	finished := w.finish(condition(batchv1.JobSuccessCriteriaMet, "CompletionsReached", ""),
		condition(batchv1.JobComplete, "CompletionsReached", ""))
	m := w.measure(jobCheck(w.namespace, template))
	require.Equal(t, checks.Success, m.Verdict, m.Message)
	job := <-finished
	require.EqualValues(t, 20, *job.Spec.ActiveDeadlineSeconds)
	require.EqualValues(t, 300, *job.Spec.TTLSecondsAfterFinished)
	require.EqualValues(t, 0, *job.Spec.BackoffLimit)
	require.Empty(t, job.OwnerReferences)
	require.Empty(t, job.Annotations, "the Job has an owner")
	require.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(&job), &job)),
		"the Job was not deleted")
}

func TestFailedJobCountsAsFailure(t *testing.T) {
	w := newWorld(t)
	w.finish(
		condition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded, ""),
		condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded,
			"Job has reached the specified backoff limit"),
	)
	m := w.measure(jobCheck(w.namespace, template))
	require.Equal(t, checks.Failure, m.Verdict, m.Message)
	require.Contains(t, m.Message, "backoff limit")
}

func TestMessagesAreMaskedBeforeTruncation(t *testing.T) {
	const secret = "hunter2Hunter2"
	w := newWorld(t, func(o *Options) {
		o.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "[masked]") }
	})
	// The padding places the secret where the length limit truncates the text.
	padding := strings.Repeat("x", bundle.MaxCheckMessageBytes-len("the Job failed: ")-len(secret)/2)
	w.finish(condition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded, ""),
		condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, padding+secret))
	m := w.measure(jobCheck(w.namespace, template))
	require.Equal(t, checks.Failure, m.Verdict, m.Message)
	require.NotContains(t, m.Message, secret[:5])
}

func TestJobThatExceedsTimeoutIsUnknownAndIsDeleted(t *testing.T) {
	w := newWorld(t)
	c := jobCheck(w.namespace, template)
	c.Timeout.Duration = 2 * time.Second
	m := w.measure(c)
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "did not end within 2s")
	var jobs batchv1.JobList
	require.NoError(t, w.List(t.Context(), &jobs, client.InNamespace(w.namespace)))
	require.Empty(t, jobs.Items)
}

func TestJobOfInterruptedMeasurementIsReplaced(t *testing.T) {
	w := newWorld(t)
	d := checks.Define([]fleet.Check{jobCheck(w.namespace, template)}, nil, "")[0]
	d.Name = "check"
	left, err := newJob(Subject{Module: "keda", Version: "1.0.0"}, d)
	require.NoError(t, err)
	require.NoError(t, w.Create(t.Context(), left))
	old := left.UID
	c := jobCheck(w.namespace, template)
	c.Timeout.Duration = 3 * time.Second
	done := make(chan checks.Measurement, 1)
	go func() { done <- w.measure(c) }()
	require.Eventually(t, func() bool {
		return w.Get(t.Context(), client.ObjectKeyFromObject(left), left) == nil && left.UID != old
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, checks.Unknown, (<-done).Verdict)

	foreign := left.DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: left.Namespace, Name: left.Name}
	foreign.Spec.Selector, foreign.Spec.Template.Labels = nil, nil
	require.NoError(t, w.Create(t.Context(), foreign))
	m := w.measure(c)
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "does not belong to a check")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign),
		"the other client's Job was deleted")
}

// A user with permission for Jobs in the module's namespace could replace the check's Job with a completed one.
func TestResultOfReplacedJobIsIgnored(t *testing.T) {
	w := newWorld(t)
	ctx, replaced := t.Context(), make(chan error, 1)
	go func() {
		replaced <- wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			var jobs batchv1.JobList
			if err := w.List(ctx, &jobs, client.InNamespace(w.namespace), client.HasLabels{LabelCheck}); err != nil ||
				len(jobs.Items) == 0 {
				return false, err
			}
			created := &jobs.Items[0]
			forged := &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: created.Namespace, Name: created.Name, Labels: created.Labels},
				Spec:       *created.Spec.DeepCopy(),
			}
			forged.Spec.Selector, forged.Spec.Template.Labels = nil, nil
			if err := w.Delete(ctx, created, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				return false, err
			}
			return true, w.Create(ctx, forged)
		})
	}()
	m := w.measure(jobCheck(w.namespace, template))
	require.NoError(t, <-replaced)
	require.Equal(t, checks.Unknown, m.Verdict, m.Message)
	require.Contains(t, m.Message, "was replaced by another client")
}

func TestJobsThatExceedLimitsAreNotCreated(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Guard = func(job *unstructured.Unstructured) error {
			if account, _, _ := unstructured.NestedString(job.Object, "spec", "template", "spec",
				"serviceAccountName"); account == "skr-agent" {
				return errors.New("would run as the agent")
			}
			return nil
		}
	})
	for text, c := range map[string]fleet.Check{
		"would run as the agent": jobCheck(w.namespace,
			`{"template":{"spec":{"serviceAccountName":"skr-agent","containers":[]}}}`),
		"parallelism must be at most 10":     jobCheck(w.namespace, `{"parallelism":1000,"template":{}}`),
		"selector and manualSelector":        jobCheck(w.namespace, `{"manualSelector":true,"template":{}}`),
		`unknown field "shell"`:              jobCheck(w.namespace, `{"shell":"x","template":{}}`),
		"the module has no objects in names": jobCheck("kube-system", template),
	} {
		c.Name = "check"
		m := w.Measure(t.Context(), Subject{Module: "keda", Namespaces: []string{w.namespace}},
			checks.Define([]fleet.Check{c}, nil, "")[0], "")
		require.Equal(t, checks.Unknown, m.Verdict)
		require.Contains(t, m.Message, text)
	}
	var jobs batchv1.JobList
	require.NoError(t, w.List(t.Context(), &jobs, client.InNamespace(w.namespace)))
	require.Empty(t, jobs.Items)
}
