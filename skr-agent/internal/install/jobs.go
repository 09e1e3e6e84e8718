package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// A Job or a Pod without a controller runs once per module version. Kubernetes deletes a completed Job after its TTL,
// and completed Pods if there are many. If the agent created such an object again, a migration could run twice. The
// Manifest's record therefore contains completed Jobs that were deleted, and completed Pods. A watch shows the
// completion of a Job, but not of a Pod, so the agent records a Pod when it reads its status.

var (
	jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind = schema.GroupKind{Kind: "Pod"}
)

// maxCompletedJobs limits the recorded Jobs, and the recorded Pods.
const maxCompletedJobs = 200

// jobVersion returns the digest of the version whose Jobs run: the version that is being applied, or the last applied
// version.
func jobVersion(m *v1beta2.Manifest) string {
	switch applied := record.Claims(m).Applied; {
	case applied == nil:
		return record.Requested(m).Digest
	case applied.Begun != "":
		return applied.Begun
	default:
		return applied.Digest
	}
}

// completedJobs returns the Jobs and Pods of the Manifest's version that are recorded as completed.
func completedJobs(m *v1beta2.Manifest) keys {
	recorded, completed := record.Claims(m).CompletedJobs, keys{}
	if recorded == nil || recorded.Version != jobVersion(m) {
		return completed
	}
	for kind, names := range map[schema.GroupKind][]string{jobKind: recorded.Jobs, podKind: recorded.Pods} {
		for _, name := range names {
			namespace, name, _ := strings.Cut(name, "/")
			completed[keyIn(kind, namespace, name)] = struct{}{}
		}
	}
	return completed
}

// addCompletedJobs records completed Jobs and Pods.
func (i *Installer) addCompletedJobs(ctx context.Context, m *v1beta2.Manifest, jobs keys) error {
	completed := completedJobs(m)
	before := len(completed)
	for k := range jobs {
		completed[k] = struct{}{}
	}
	if len(completed) == before {
		return nil
	}
	next := record.CompletedJobs{
		Version: jobVersion(m), Jobs: namesOf(completed, jobKind), Pods: namesOf(completed, podKind),
	}
	if err := i.records.Update(ctx, i.cluster, nil, m, func(r *record.Record) { r.CompletedJobs = &next }); err != nil {
		return fmt.Errorf("record completed Jobs: %w", err)
	}
	return nil
}

// namesOf returns the first maxCompletedJobs objects of a kind as NAMESPACE/NAME.
func namesOf(objects keys, kind schema.GroupKind) []string {
	names := []string{}
	for k := range objects {
		if k.GroupKind() == kind {
			names = append(names, k.Namespace+"/"+k.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxCompletedJobs)]
}

// completedPods returns the observed Pods that completed. A Pod that is being deleted does not count, because its
// containers can end without an error when they are stopped.
func completedPods(seen []observation) keys {
	completed := keys{}
	for _, s := range seen {
		if s.GroupKind() == podKind && s.object != nil && s.object.GetDeletionTimestamp() == nil &&
			textAt(s.object, "status", "phase") == "Succeeded" {
			completed[s.key] = struct{}{}
		}
	}
	return completed
}

// recordCompleted records the Jobs that completed and were deleted according to their watch.
func (i *Installer) recordCompleted(ctx context.Context, m *v1beta2.Manifest) error {
	name := client.ObjectKeyFromObject(m)
	jobs := i.watches.takeCompleted(name)
	err := i.addCompletedJobs(ctx, m, jobs)
	if err != nil {
		for k := range jobs {
			i.watches.markCompleted(name, k)
		}
	}
	return err
}

// withoutCompleted returns a stage without the Jobs and Pods that completed for this version and do not exist. A Job
// with a TTL that does not exist counts as completed, because Kubernetes deletes such a Job after its completion. The
// exception is a Job in seen, the objects with reported changes, because another client can have deleted it.
func (i *Installer) withoutCompleted(
	ctx context.Context, m *v1beta2.Manifest, stage []*unstructured.Unstructured, seen keys,
) ([]*unstructured.Unstructured, error) {
	completed, expired := completedJobs(m), keys{}
	applied, before := record.Claims(m).Applied, keysOf(m.Status.Synced)
	var left []*unstructured.Unstructured
	for _, o := range stage {
		k := guard.KeyOf(o)
		if k.GroupKind() == jobKind && completed.has(k) {
			continue
		}
		_, hasTTL, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
		expires := k.GroupKind() == jobKind && hasTTL && applied != nil && applied.Begun == "" && before.has(k) &&
			!seen.has(k)
		if expires || completed.has(k) {
			live, err := i.actor(m).owned(ctx, resourceOf(o))
			if err != nil {
				return nil, err
			}
			if live == nil {
				expired[k] = struct{}{}
				continue
			}
		}
		left = append(left, o)
	}
	return left, i.addCompletedJobs(ctx, m, expired)
}
