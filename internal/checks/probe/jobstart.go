package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jobError is the error for a Job that did not end, with the reason why its Pods do not run.
type jobError struct {
	error
	reason string
}

func (e jobError) Unwrap() error { return e.error }

// listPods returns a Job's Pods, without other clients' Pods that have the same label.
func (p *Prober) listPods(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := p.cluster.List(ctx, &pods, client.InNamespace(job.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: job.Name}, client.Limit(10*maxJobPods))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) }), err
}

// notStarted returns the reason why a Job has no running Pod, or "" if a Pod runs or the reason is unknown.
func (p *Prober) notStarted(ctx context.Context, job *batchv1.Job) string {
	pods, err := p.listPods(ctx, job)
	if err != nil {
		return ""
	}
	if len(pods) == 0 {
		return fmt.Sprintf("the Job has no Pod: check ServiceAccount %s and the quotas of namespace %s",
			cmp.Or(job.Spec.Template.Spec.ServiceAccountName, "default"), job.Namespace)
	}
	for _, pod := range pods {
		if reason := waitingReason(pod.Status); reason != "" {
			return "its Pod is waiting: " + reason
		}
	}
	return ""
}

func waitingReason(s corev1.PodStatus) string {
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return waiting.Reason + ": " + waiting.Message
		}
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
