package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/internal/pause"
)

const (
	jobPrefix = "kyma-check-"
	// LabelCheck is the label with the check's name on the check's Job and its Pods. They have no module labels,
	// because they are not module objects.
	LabelCheck = v1beta2.Group + "/check"
	// jobLifetime is the time after which Kubernetes deletes a Job that the agent could not delete.
	jobLifetime = 5 * time.Minute
	// jobReadInterval is the time between two reads of a running Job. jobCleanup limits the time to delete the Job.
	jobReadInterval = time.Second
	jobCleanup      = 10 * time.Second
	// maxJobPods limits a Job's completions, parallelism and backoff limit.
	maxJobPods = 10
	// maxLogBytes and logLines limit the bytes and lines that are read from a failed Pod's log.
	maxLogBytes, logLines = 4 << 10, 5
)

// job runs a check's Job: it creates the Job, waits until the Job has ended, and deletes it.
func (p *Prober) job(ctx context.Context, subject Subject, d checks.Definition) (m checks.Measurement, err error) {
	job, err := newJob(subject, d)
	if err != nil {
		return m, err
	}
	if p.options.Guard != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
		if err != nil {
			return m, err
		}
		if err := p.options.Guard(&unstructured.Unstructured{Object: content}); err != nil {
			return m, err
		}
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobCleanup)
		defer cancel()
		if err != nil && ctx.Err() != nil {
			err = jobError{err, p.notStarted(ending, job)}
		}
		if left := p.deleteJob(ending, job); left != nil && err == nil && m.Verdict != checks.Failure {
			err = fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, left)
		}
	}()
	if err := p.createJob(ctx, job); err != nil {
		return m, err
	}
	created := job.UID
	for {
		switch finished := jobCondition(job); {
		case job.UID != created:
			return m, fmt.Errorf("job %s/%s was replaced by another client", job.Namespace, job.Name)
		case finished == nil:
		case finished.Type == batchv1.JobComplete:
			return checks.Measurement{Verdict: checks.Success}, nil
		case finished.Reason == batchv1.JobReasonDeadlineExceeded:
			return m, fmt.Errorf("the Job did not complete within %s", d.Timeout.Duration)
		default:
			return checks.Measurement{Verdict: checks.Failure, Message: p.lastLog(ctx, job, finished.Message)}, nil
		}
		if !pause.Sleep(ctx, jobReadInterval) {
			return m, ctx.Err()
		}
		if err := p.cluster.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return m, err
		}
	}
}

// newJob returns a check's Job. It sets the Job's deadline, lifetime and limits regardless of the template, and applies
// the module's image rules.
func newJob(subject Subject, d checks.Definition) (*batchv1.Job, error) {
	if subject.Namespaces != nil && !slices.Contains(subject.Namespaces, d.Job.Namespace) {
		return nil, fmt.Errorf("job.namespace: the module has no objects in namespace %s", d.Job.Namespace)
	}
	var spec batchv1.JobSpec
	if err := strict.JSON(d.Job.Template.Raw, &spec, strict.MaxJSONDepth); err != nil {
		return nil, fmt.Errorf("job.template: %w", err)
	}
	if spec.Selector != nil || spec.ManualSelector != nil {
		return nil, errors.New("job.template: selector and manualSelector are not allowed")
	}
	if ptr.Deref(spec.Completions, 1) > maxJobPods || ptr.Deref(spec.Parallelism, 1) > maxJobPods {
		return nil, fmt.Errorf("job.template: completions and parallelism must be at most %d", maxJobPods)
	}
	sum := sha256.Sum256([]byte(subject.Module + " " + subject.Version + " " + d.Name))
	labels := map[string]string{LabelCheck: d.Name}
	spec.Suspend, spec.TTLSecondsAfterFinished = nil, ptr.To(int32(jobLifetime.Seconds()))
	spec.ActiveDeadlineSeconds = ptr.To(int64(math.Ceil(d.Timeout.Seconds())))
	spec.BackoffLimit = ptr.To(min(ptr.Deref(spec.BackoffLimit, 0), maxJobPods))
	if spec.Template.Labels == nil {
		spec.Template.Labels = map[string]string{}
	}
	spec.Template.Labels[LabelCheck] = d.Name
	if spec.Template.Spec.RestartPolicy == "" {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Job.Namespace,
			Name:      jobPrefix + hex.EncodeToString(sum[:8]),
			Labels:    labels,
		},
		Spec: spec,
	}
	return job, applyImageRules(job, subject.Images)
}

// applyImageRules changes the images of a check's Job in the same way as the images of the module's objects.
func applyImageRules(job *batchv1.Job, rules images.ModuleRules) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	isOperator := func(*unstructured.Unstructured) bool { return false }
	_, unpinned, err := rules.Apply([]*unstructured.Unstructured{object}, isOperator)
	switch {
	case err != nil:
		return err
	case len(unpinned) > 0:
		return fmt.Errorf("job.template: the root of trust has release keys, but no digest is released for %s: list "+
			"the image in the component, or use a digest in the check", strings.Join(unpinned, ", "))
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job)
}

// createJob creates a check's Job. It first deletes a Job that an interrupted measurement left behind.
func (p *Prober) createJob(ctx context.Context, job *batchv1.Job) error {
	fresh := job.DeepCopy()
	err := p.cluster.Create(ctx, job)
	for apierrors.IsAlreadyExists(err) {
		if err := p.deleteJob(ctx, fresh); err != nil {
			return err
		}
		if !pause.Sleep(ctx, jobReadInterval/5) {
			return ctx.Err()
		}
		fresh.DeepCopyInto(job)
		err = p.cluster.Create(ctx, job)
	}
	return err
}

// deleteJob deletes a check's Job. It returns an error if another client created a Job with the same name.
func (p *Prober) deleteJob(ctx context.Context, job *batchv1.Job) error {
	var found batchv1.Job
	if err := p.cluster.Get(ctx, client.ObjectKeyFromObject(job), &found); err != nil {
		return client.IgnoreNotFound(err)
	}
	if found.Labels[LabelCheck] != job.Labels[LabelCheck] {
		return fmt.Errorf("job %s/%s already exists and does not belong to a check", job.Namespace, job.Name)
	}
	if !found.DeletionTimestamp.IsZero() {
		return nil
	}
	return client.IgnoreNotFound(p.cluster.Delete(ctx, &found,
		client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &found.UID}))
}

// jobCondition returns the condition that ended a Job, or nil while the Job is running.
func jobCondition(job *batchv1.Job) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// lastLog returns the last lines in the log of the Job's newest Pod. If the log cannot be read, it returns the given
// reason.
func (p *Prober) lastLog(ctx context.Context, job *batchv1.Job, reason string) string {
	pods, err := p.listPods(ctx, job)
	if err != nil || len(pods) == 0 {
		return "the Job failed: " + reason
	}
	newest := slices.MaxFunc(pods, func(a, b corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	options := &corev1.PodLogOptions{TailLines: ptr.To(int64(logLines)), LimitBytes: ptr.To(int64(maxLogBytes))}
	stream, err := p.pods.Pods(job.Namespace).GetLogs(newest.Name, options).Stream(ctx)
	if err != nil {
		return "the Job failed: " + reason
	}
	defer stream.Close() //nolint:errcheck // the log is only read, so a failed Close loses nothing
	log, err := io.ReadAll(io.LimitReader(stream, maxLogBytes))
	text := strings.TrimSpace(p.maskSecrets(string(log)))
	if err != nil || text == "" {
		return "the Job failed: " + reason
	}
	if over := len(text) - bundle.MaxCheckMessageBytes; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}
