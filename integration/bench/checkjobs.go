package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/internal/checks/probe"
)

// jobPoll is the time between two searches of completeJobs for new Jobs.
const jobPoll = 200 * time.Millisecond

// withJobs adds checks of kind job to a module version, for the checks that have only a name.
func withJobs(v sample.Version, named []v1alpha1.Check) sample.Version {
	var shipped strings.Builder
	for _, c := range named {
		if c.CEL == nil && c.HTTP == nil && c.PromQL == nil {
			fmt.Fprintf(&shipped, "- name: %s\n  job:\n    namespace: %s\n    template:\n      template:\n        spec:\n"+
				"          containers: [{name: test, image: example.org/test}]\n", c.Name, v1beta2.RuntimeNamespace)
		}
	}
	if shipped.Len() == 0 {
		return v
	}
	return v.WithResource(sample.Resource{
		Name: "checks", Type: "yaml", MediaType: "application/yaml", Content: []byte("checks:\n" + shipped.String()),
	})
}

// allowJobs grants the ServiceAccount of module checks the permissions for Jobs, as the chart's value
// rbac.checks.rules does.
func allowJobs(ctx context.Context, runtime client.Client) error {
	const name = "checks-jobs"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"create", "delete"},
	}}}
	if err := runtime.Create(ctx, role); err != nil {
		return err
	}
	return runtime.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-checks",
		}},
	})
}

// completeJobs replaces the Job controller: it completes the Jobs of module checks until ctx is done.
func completeJobs(ctx context.Context, runtime client.Client) {
	for rest(ctx, jobPoll) == nil {
		var jobs batchv1.JobList
		err := runtime.List(ctx, &jobs, client.InNamespace(v1beta2.RuntimeNamespace), client.HasLabels{probe.LabelCheck})
		for i := range jobs.Items {
			if job := &jobs.Items[i]; len(job.Status.Conditions) == 0 && job.DeletionTimestamp.IsZero() {
				complete(job)
				if err = runtime.Status().Update(ctx, job); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					err = nil // the agent deleted the Job
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("complete the Jobs of checks: %v", err)
		}
	}
}

func complete(job *batchv1.Job) {
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: "CompletionsReached", LastTransitionTime: now,
		})
	}
}
