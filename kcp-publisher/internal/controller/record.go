package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
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

// persistFirst writes what cannot be found again once a bundle has been made of it. A runtime whose new key is in its bundle does not
// introduce the key again: a control plane that has forgotten it would believe no report any more. A Secret that was given away and is
// forgotten would never be taken back. What lifecycle-manager installed is not known any more once its Manifests are gone, and that it is
// adopted not any more once the runtime reports the bundle that follows from it.
func (k *Kymas) persistFirst(ctx context.Context, before, kyma *v1beta2.Kyma) error {
	if !hasToBeRemembered(before.Status.Runtime, kyma.Status.Runtime) {
		return nil
	}
	err := k.Client.Status().Patch(ctx, kyma, client.MergeFromWithOptions(before.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	if unwritable(err) {
		return errors.Join(err, k.writeRefusal(ctx, before, kyma, err))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	if err == nil {
		k.tell(before.Status, kyma)
		k.noteWritten(kyma, before.Status, kyma.Status)
		k.Shard.wrote(before.Status, kyma)
	}
	kyma.DeepCopyInto(before)
	return nil
}

// hasToBeRemembered reports whether a status says of keys, Secrets or inherited modules what the one before did not.
func hasToBeRemembered(before, after *v1beta2.RuntimeStatus) bool {
	if after == nil {
		return false
	}
	if before == nil {
		before = &v1beta2.RuntimeStatus{}
	}
	return !slices.Equal(before.Secrets, after.Secrets) || thumbprintOf(before.Key) != thumbprintOf(after.Key) ||
		!equality.Semantic.DeepEqual(before.Takeover, after.Takeover)
}

func thumbprintOf(key *v1beta2.RuntimeKey) string {
	if key == nil {
		return ""
	}
	return key.Thumbprint
}

// notedLater reports whether the status of a Kyma is neither made nor written before the next look at it. Bundles first, what is said about them
// later: during a promotion to a whole fleet, writing statuses would take most of the time until the last runtime can pull. A status that is lost
// with a crash in between is adopted from the registry.
func notedLater(outcome publish.Outcome) bool {
	return outcome.Pushed && !outcome.Unrecorded && outcome.Deviation == nil
}

// record writes what changed, in one request, and nothing when nothing did. until is that of settles.
func (k *Kymas) record(ctx context.Context, before, after *v1beta2.Kyma, outcome publish.Outcome, asked, until time.Time) (ctrl.Result, error) {
	if outcome.Pushed {
		bundlesPublished.WithLabelValues(string(outcome.Reason)).Inc()
		ctrl.LoggerFrom(ctx).Info("published bundle", "runtime", plan.RuntimeID(after), "sequence", outcome.Published.Predicate.Sequence,
			"digest", outcome.Published.Digest, "reason", outcome.Reason)
	}
	switch {
	case outcome.Unrecorded:
		return k.written(ctx, before, after, ctrl.Result{RequeueAfter: recordedSoon})
	case notedLater(outcome):
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusSettles, k.PollInterval)), Priority: k.orderOf(after)}, nil
	}
	result := k.lookAgain(after, asked, until)
	if !until.IsZero() { // it was found that there is nothing to write
		k.count(after)
		return result, nil
	}
	return k.written(ctx, before, after, result)
}

func (k *Kymas) written(ctx context.Context, before, after *v1beta2.Kyma, result ctrl.Result) (ctrl.Result, error) {
	if ingest.Notable(before.Status, after.Status) {
		k.vouch(after)
		was, is := before.Status, after.Status // what is written is read back into it
		err := k.Client.Status().Patch(ctx, after, statusPatch{before})
		if unwritable(err) {
			err = k.writeRefusal(ctx, before, after, err)
			is = after.Status // nothing else was written
		}
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("write status of Kyma %s/%s: %w", after.Namespace, after.Name, err)
		}
		if err == nil {
			k.tell(was, after)
			k.noteWritten(after, was, is)
			k.Shard.wrote(was, after)
		}
	}
	k.count(after)
	return result, nil
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

// writeRefusal writes a status that the API server takes in the place of one that it refuses: the last good one would stay forever, and
// look like health.
func (k *Kymas) writeRefusal(ctx context.Context, before, after *v1beta2.Kyma, cause error) error {
	after.Status = ingest.Unwritable(before.Status, after.Status, after.Generation, cause, k.Now())
	k.vouch(after)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Error(cause, "the API server refuses the status of a Kyma", "runtime", plan.RuntimeID(after))
	return k.Client.Status().Patch(ctx, after, statusPatch{before})
}
