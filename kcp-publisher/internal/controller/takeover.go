package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

// inherit records lifecycle-manager's installed modules in the runtime of a Kyma that is taken over. It does so only
// once, so that Manifests that are deleted later uninstall nothing.
func (k *Kymas) inherit(ctx context.Context, kyma *v1beta2.Kyma) error {
	phase, err := plan.TakeoverPhase(kyma)
	if phase != bundle.TakeoverAdopt || err != nil || kyma.Status.Runtime.Takeover != nil {
		return err
	}
	manifests, err := k.manifestsOf(ctx, kyma)
	if err != nil {
		return err
	}
	kyma.Status.Runtime.Takeover = takeover.Remember(kyma, manifests)
	return nil
}

// manifestsOf returns lifecycle-manager's Manifests of a Kyma.
func (k *Kymas) manifestsOf(ctx context.Context, kyma *v1beta2.Kyma) ([]v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := k.direct.List(ctx, &all, client.InNamespace(kyma.Namespace), client.MatchingLabels{v1beta2.LabelKymaName: kyma.Name}); err != nil {
		return nil, fmt.Errorf("list lifecycle-manager's Manifests of Kyma %s/%s, which rbac/takeover.yaml of the chart allows: %w", kyma.Namespace, kyma.Name, err)
	}
	return takeover.Of(kyma, all.Items), nil
}

// announceTakeover emits an Event for a phase that the runtime has newly completed.
func (k *Kymas) announceTakeover(kyma *v1beta2.Kyma, before string) {
	t := kyma.Status.Runtime.Takeover
	if t == nil || t.Done == before {
		return
	}
	var note string
	switch bundle.TakeoverPhase(t.Done) {
	case bundle.TakeoverAdopt:
		note = "the runtime has adopted its modules"
	case bundle.TakeoverClean:
		note = "the runtime had no leftovers of lifecycle-manager"
		if len(t.Removed) > 0 {
			note = "the runtime removed leftovers of lifecycle-manager: " + strings.Join(t.Removed, ", ")
		}
	case bundle.TakeoverRelease:
		note = "the runtime has returned its modules to lifecycle-manager"
	}
	k.event(kyma, corev1.EventTypeNormal, v1beta2.ReasonTakeover, "Takeover", note)
}

func takeoverDone(kyma *v1beta2.Kyma) string {
	if r := kyma.Status.Runtime; r != nil && r.Takeover != nil {
		return r.Takeover.Done
	}
	return ""
}

// removeManifests removes lifecycle-manager's Manifests of a deleted Kyma that was being taken over. It removes their
// finalizers first: lifecycle-manager would uninstall the modules of deleted Manifests, and without lifecycle-manager
// the finalizers would stay.
func (k *Kymas) removeManifests(ctx context.Context, kyma *v1beta2.Kyma) error {
	if kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive {
		return nil // those of a finished takeover are deleted already
	}
	manifests, err := k.manifestsOf(ctx, kyma)
	if err != nil {
		return err
	}
	var failed []error
	for i := range manifests {
		failed = append(failed, takeover.RemoveManifest(ctx, k.Client, &manifests[i]))
	}
	return errors.Join(failed...)
}

// dropFinalizers removes the finalizers of a Kyma whose runtime is done: the publisher's own, and that of an absent
// lifecycle-manager.
func dropFinalizers(kyma *v1beta2.Kyma) {
	controllerutil.RemoveFinalizer(kyma, v1beta2.FinalizerKyma)
	controllerutil.RemoveFinalizer(kyma, v1beta2.LifecycleManagerFinalizerPurge)
}
