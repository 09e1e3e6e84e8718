package takeover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// BehindError means that lifecycle-manager has not yet updated some Manifests to the version that the runtime runs.
// Manifests contains the name and the required version of each of these Manifests.
type BehindError struct{ Manifests []string }

func (e *BehindError) Error() string {
	return "waiting for lifecycle-manager to update " + strings.Join(e.Manifests, ", ")
}

// GiveBack returns a Kyma to lifecycle-manager after its runtime has released the modules. The order of these steps
// ensures that the publisher and lifecycle-manager never manage the runtime at the same time, and that
// lifecycle-manager does not downgrade modules. Each step can be repeated:
//
// 1. Remove the takeover label, so that the publisher stops.
// 2. Write the status that lifecycle-manager needs to continue.
// 3. Remove the skip-reconciliation label from Manifests with the running version, then from the Kyma.
// 4. Remove the label from each other Manifest once lifecycle-manager has updated it.
// 5. Remove the annotation with the phase.
func GiveBack(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, offered *catalog.Snapshot,
) (done []string, err error) {
	// Also check the takeover label, because the Kyma's author may have removed the skip-reconciliation label before
	// steps 1 to 3 are done.
	if kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True ||
		kyma.Labels[v1beta2.LabelTakeover] == v1beta2.TakeoverActive {
		if done, err = handBack(ctx, api, kyma, offered); err != nil {
			return done, err
		}
	}
	more, err := releaseManifests(ctx, api, kyma, offered)
	done = append(done, more...)
	if err != nil {
		return done, err
	}
	before := kyma.DeepCopy()
	delete(kyma.Annotations, v1beta2.AnnotationTakeoverPhase)
	if err := patchKyma(ctx, api, before, kyma); err != nil {
		return done, err
	}
	return append(done, fmt.Sprintf("Kyma %s/%s is managed by lifecycle-manager again", kyma.Namespace, kyma.Name)), nil
}

// handBack performs GiveBack's steps 1 to 3.
func handBack(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, offered *catalog.Snapshot,
) (done []string, err error) {
	manifests, err := listManifests(ctx, api, kyma)
	if err != nil {
		return nil, err
	}
	h := newHandback(kyma, manifests, offered)
	if err := h.refusal(); err != nil {
		return nil, err
	}
	status := returnedStatus(kyma.Status, h)
	before := kyma.DeepCopy()
	delete(kyma.Labels, v1beta2.LabelTakeover)
	if kyma.Annotations == nil {
		kyma.Annotations = map[string]string{}
	}
	kyma.Annotations[v1beta2.AnnotationTakeoverPhase] = string(bundle.TakeoverRelease)
	if err := patchKyma(ctx, api, before, kyma); err != nil {
		return nil, err
	}
	before = kyma.DeepCopy()
	kyma.Status = status
	if err := api.Status().
		Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("write status of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	for i := range manifests {
		if _, behind := h.Behind[manifests[i].Name]; !behind {
			text, err := releaseManifest(ctx, api, &manifests[i])
			if err != nil {
				return done, err
			}
			done = append(done, text)
		}
	}
	before = kyma.DeepCopy()
	delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
	return done, patchKyma(ctx, api, before, kyma)
}

// releaseManifests removes the skip-reconciliation label from each Manifest that has the version running in the
// runtime. If other Manifests have an older version, it returns a BehindError, or the reason why lifecycle-manager will
// not update them.
func releaseManifests(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, offered *catalog.Snapshot,
) (done []string, err error) {
	manifests, err := listManifests(ctx, api, kyma)
	if err != nil {
		return nil, err
	}
	h := newHandback(kyma, manifests, offered)
	for i := range manifests {
		m := &manifests[i]
		_, isBehind := h.Behind[m.Name]
		_, isRefused := h.Refused[m.Name]
		if isBehind || isRefused || m.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True {
			continue
		}
		text, err := releaseManifest(ctx, api, m)
		if err != nil {
			return done, err
		}
		done = append(done, text)
	}
	if err := h.refusal(); err != nil || len(h.Behind) == 0 {
		return done, err
	}
	waits := &BehindError{}
	for _, name := range slices.Sorted(maps.Keys(h.Behind)) {
		waits.Manifests = append(waits.Manifests,
			fmt.Sprintf("Manifest %s/%s to version %s", kyma.Namespace, name, h.Behind[name]))
	}
	return done, waits
}

func releaseManifest(ctx context.Context, api client.Client, m *v1beta2.Manifest) (string, error) {
	before := m.DeepCopy()
	delete(m.Labels, v1beta2.LabelSkipReconciliation)
	// Use the optimistic lock, so that the label is removed only if the Manifest still has the compared spec.version.
	err := api.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return fmt.Sprintf("Manifest %s/%s is managed by lifecycle-manager again", m.Namespace, m.Name),
		ignoreNotFound("return", m, err)
}

// CheckReturn returns an error if some of a Kyma's Manifests must not be returned to lifecycle-manager.
func CheckReturn(ctx context.Context, api client.Client, kyma *v1beta2.Kyma, offered *catalog.Snapshot) error {
	manifests, err := listManifests(ctx, api, kyma)
	if err != nil {
		return err
	}
	return newHandback(kyma, manifests, offered).refusal()
}
