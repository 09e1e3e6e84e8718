package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// persistFirst writes what cannot be found again after a bundle was made of it. A runtime whose new key is in its
// bundle does not introduce the key again: a control plane that forgot it would accept no report anymore. A Secret that
// a runtime got and that is forgotten would never be removed. What lifecycle-manager installed is unknown once its
// Manifests are gone, and that it is adopted is unknown once the runtime reports the resulting bundle.
func (k *Kymas) persistFirst(ctx context.Context, before, kyma *v1beta2.Kyma) error {
	if !hasToBeRemembered(before.Status.Runtime, kyma.Status.Runtime) {
		return nil
	}
	refused, err := k.patch(ctx, before, kyma)
	if err := errors.Join(refused, err); err != nil {
		return err // nothing may be published that is not remembered
	}
	kyma.DeepCopyInto(before)
	return nil
}

// hasToBeRemembered reports whether a status differs in its assignment, keys, Secrets or inherited modules.
func hasToBeRemembered(before, after *v1beta2.RuntimeStatus) bool {
	if after == nil {
		return false
	}
	if before == nil {
		before = &v1beta2.RuntimeStatus{}
	}
	return clone(before) != clone(after) || !equality.Semantic.DeepEqual(before.Assignment, after.Assignment) || !slices.Equal(before.Secrets, after.Secrets) || thumbprintOf(before.Key) != thumbprintOf(after.Key) ||
		!equality.Semantic.DeepEqual(before.Takeover, after.Takeover)
}

func clone(s *v1beta2.RuntimeStatus) string {
	if s.Agent == nil {
		return ""
	}
	return s.Agent.Clone
}

func thumbprintOf(key *v1beta2.RuntimeKey) string {
	if key == nil {
		return ""
	}
	return key.Thumbprint
}

// postponesStatus reports whether the status of a Kyma waits for its next pass. Bundles go first: during a promotion to
// a whole fleet, writing statuses would take most of the time until the last runtime can pull. A status that is lost in
// a crash is adopted from the registry.
func postponesStatus(outcome publish.Outcome) bool {
	return outcome.Pushed && !outcome.Unrecorded && outcome.Deviation == nil
}

// write writes the status of a Kyma if it differs, and counts the Kyma.
func (k *Kymas) write(ctx context.Context, before, after *v1beta2.Kyma) error {
	if ingest.Notable(before.Status, after.Status) {
		k.vouch(after)
		if _, err := k.patch(ctx, before, after); err != nil {
			return err
		}
	}
	k.count(after)
	return nil
}

// patch is the only writer of a Kyma's status. If the API server refuses the status, the error is refused, and a status
// that says so is written.
func (k *Kymas) patch(ctx context.Context, before, after *v1beta2.Kyma) (refused, err error) {
	was, is := before.Status, after.Status // the patch reads the written status back into after
	err = k.Client.Status().Patch(ctx, after, statusPatch{before})
	if unwritable(err) {
		refused = err
		err = k.writeRefusal(ctx, before, after, refused)
		is = after.Status // nothing else was written
	}
	if client.IgnoreNotFound(err) != nil {
		return refused, fmt.Errorf("write status of Kyma %s/%s: %w", after.Namespace, after.Name, err)
	}
	if err == nil {
		k.tell(was, after)
		k.noteWritten(after, was, is)
		k.Shard.wrote(was, after)
	}
	return refused, nil
}

// vouch notes in a status that is written until when its runtime is healthy, and what it runs.
func (k *Kymas) vouch(kyma *v1beta2.Kyma) {
	if kyma.Status.Runtime == nil {
		return
	}
	runtime := *kyma.Status.Runtime // it may be that of the status before
	runtime.HealthyUntil, runtime.Running = nil, ""
	if until := fleet.HealthyUntil(kyma, k.Now()); !until.IsZero() {
		runtime.HealthyUntil, runtime.Running = &metav1.Time{Time: until}, fleet.Running(kyma)
	}
	kyma.Status.Runtime = &runtime
}

// etcdTooLarge is what the API server passes on of etcd, as an internal error.
const etcdTooLarge = "etcdserver: request is too large"

// unwritable reports whether the API server would refuse a status however often it is written.
func unwritable(err error) bool {
	return err != nil && (apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), etcdTooLarge))
}

// writeRefusal writes a status that the API server takes in the place of one that it refuses: the last good one would
// stay forever, and look like health.
func (k *Kymas) writeRefusal(ctx context.Context, before, after *v1beta2.Kyma, cause error) error {
	after.Status = ingest.Unwritable(before.Status, after.Status, after.Generation, cause, k.Now())
	k.vouch(after)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Error(cause, "the API server refuses the status of a Kyma", "runtime", plan.RuntimeID(after))
	return k.Client.Status().Patch(ctx, after, statusPatch{before})
}
