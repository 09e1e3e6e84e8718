package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// persistNewData writes a status with new data that must survive a crash. The status already refers to the report in
// facts, so it never shows a better module state than this report.
func (k *Kymas) persistNewData(ctx context.Context, before, kyma *v1beta2.Kyma, facts ingest.Facts) error {
	kyma.Status = ingest.HeldStatus(kyma.Status, facts, "", k.Now())
	refused, err := k.patchStatus(ctx, before, kyma)
	if err := errors.Join(refused, err); err != nil {
		return err // do not publish, because the data is not stored
	}
	kyma.DeepCopyInto(before)
	return nil
}

// postponesStatus reports whether the next reconcile writes the Kyma's status instead of this one, because pushing
// bundles for other runtimes is more urgent.
func postponesStatus(outcome publish.Outcome) bool {
	return outcome.IsPushed && !outcome.IsUnrecorded && outcome.Deviation == nil
}

// writeStatus writes a Kyma's status if it has changed, and updates the metrics.
func (k *Kymas) writeStatus(ctx context.Context, before, after *v1beta2.Kyma) error {
	if ingest.NeedsUpdate(before.Status, after.Status) {
		k.setHealthyUntil(after)
		if _, err := k.patchStatus(ctx, before, after); err != nil {
			return err
		}
	}
	k.updateCounts(after)
	return nil
}

// patchStatus writes a Kyma's status. Every status write must use patchStatus. If the API server rejects the status,
// patchStatus writes a status with the error.
func (k *Kymas) patchStatus(ctx context.Context, before, after *v1beta2.Kyma) (refused, err error) {
	err = k.replaceStatus(ctx, before, after)
	if isUnwritable(err) {
		refused = err
		err = k.writeRefusedStatus(ctx, before, after, refused)
	}
	if client.IgnoreNotFound(err) != nil {
		return refused, fmt.Errorf("write status of Kyma %s/%s: %w", after.Namespace, after.Name, err)
	}
	if err == nil {
		k.emitChanges(before.Status, after)
		k.announceWritten(after, before.Status, after.Status)
		k.Planner.keepWritten(before.Status, after)
	}
	return refused, nil
}

// replaceStatus sends a Kyma's status to the API server, and sets the Kyma's new resource version. The rest of the Kyma
// stays as it is, because nothing else can have changed.
func (k *Kymas) replaceStatus(ctx context.Context, before, after *v1beta2.Kyma) error {
	patch, err := statusPatch(before, after)
	if err != nil {
		return err
	}
	// With this type, the API server returns only the metadata. A whole Kyma would cost both sides more CPU time.
	stored := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Kyma"},
		ObjectMeta: metav1.ObjectMeta{Namespace: after.Namespace, Name: after.Name},
	}
	if err := k.Client.Status().Patch(ctx, stored, patch); err != nil {
		return err
	}
	after.ResourceVersion = stored.ResourceVersion
	return nil
}

func (k *Kymas) setHealthyUntil(kyma *v1beta2.Kyma) {
	if kyma.Status.Runtime == nil {
		return
	}
	runtime := *kyma.Status.Runtime // copy it, because the previous status may share the struct
	runtime.HealthyUntil, runtime.Running = nil, ""
	if until := fleet.HealthyUntil(kyma, k.Now()); !until.IsZero() {
		runtime.HealthyUntil, runtime.Running = &metav1.Time{Time: until}, fleet.RunningModules(kyma)
	}
	kyma.Status.Runtime = &runtime
}

// etcdTooLarge is etcd's message for a request that is too large. The API server returns it as an internal error.
const etcdTooLarge = "etcdserver: request is too large"

// isUnwritable reports whether the API server rejected the status with an error that a retry would not resolve.
func isUnwritable(err error) bool {
	return err != nil &&
		(apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) ||
			strings.Contains(err.Error(), etcdTooLarge))
}

// writeRefusedStatus writes a status with the API server's error. Otherwise, the previous status would stay, and the
// runtime would look healthy.
func (k *Kymas) writeRefusedStatus(ctx context.Context, before, after *v1beta2.Kyma, cause error) error {
	after.Status = ingest.RefusedStatus(before.Status, after.Status, after.Generation, cause, k.Now())
	k.setHealthyUntil(after)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Error(cause, "the API server refuses a Kyma's status", "runtime", plan.RuntimeID(after))
	return k.replaceStatus(ctx, before, after)
}

// statusPatch returns a JSON patch that replaces a Kyma's whole status. A merge patch costs the API server about the
// same CPU time (stage "baselines" of `make bench-fleet`), but the publisher would have to compute the difference.
//
// The patch contains the Kyma's resource version. A publisher with an outdated Kyma gets a conflict and cannot
// overwrite newer data. The operations of the patch are valid for every Kyma, so the API server never reports an
// outdated Kyma as an invalid status.
func statusPatch(before, after *v1beta2.Kyma) (client.Patch, error) {
	type operation struct {
		Operation string `json:"op"`
		Path      string `json:"path"`
		Value     any    `json:"value"`
	}
	data, err := json.Marshal([]operation{
		{"replace", "/metadata/resourceVersion", before.ResourceVersion}, {"add", "/status", after.Status},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the status of Kyma %s/%s: %w", after.Namespace, after.Name, err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}
