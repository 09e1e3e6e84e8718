package takeover

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// The Kyma controller calls the functions in this file. The command line does not.

// Inherit records in the Kyma's status which modules lifecycle-manager installed. It records them only once, so that
// deleting a Manifest later does not remove its module.
func Inherit(ctx context.Context, direct client.Reader, kyma *v1beta2.Kyma) error {
	is, err := phase.PhaseOf(kyma)
	if is != bundle.TakeoverAdopt || err != nil || kyma.Status.Runtime.Takeover != nil {
		return err
	}
	manifests, err := readManifests(ctx, direct, kyma)
	if err != nil {
		return err
	}
	kyma.Status.Runtime.Takeover = recordModules(kyma, manifests)
	return nil
}

func readManifests(ctx context.Context, direct client.Reader, kyma *v1beta2.Kyma) ([]v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := direct.List(ctx, &all, client.InNamespace(kyma.Namespace),
		client.MatchingLabels{v1beta2.LabelKymaName: kyma.Name}); err != nil {
		return nil,
			fmt.Errorf(
				"list lifecycle-manager's Manifests of Kyma %s/%s (requires rbac/takeover.yaml of the chart): %w",
				kyma.Namespace, kyma.Name, err)
	}
	return manifestsOf(kyma, all.Items), nil
}

// Announcement returns an Event message if the runtime has completed a new phase. Otherwise, it returns "". before is
// the phase that the runtime had completed previously.
func Announcement(kyma *v1beta2.Kyma, before string) string {
	t := kyma.Status.Runtime.Takeover
	if t == nil || t.Done == before {
		return ""
	}
	switch bundle.TakeoverPhase(t.Done) {
	case bundle.TakeoverAdopt:
		return "the runtime has adopted its modules"
	case bundle.TakeoverRelease:
		return "the runtime has returned its modules to lifecycle-manager"
	}
	if len(t.Removed) > 0 {
		return "the runtime removed leftovers of lifecycle-manager: " + strings.Join(t.Removed, ", ")
	}
	return "the runtime had no leftovers of lifecycle-manager"
}

// CompletedPhase returns the phase that a Kyma's runtime has completed, or "".
func CompletedPhase(kyma *v1beta2.Kyma) string {
	if r := kyma.Status.Runtime; r != nil && r.Takeover != nil {
		return r.Takeover.Done
	}
	return ""
}

// RemoveManifests deletes lifecycle-manager's Manifests for a deleted Kyma. It removes their finalizers first, so that
// lifecycle-manager does not uninstall the modules.
func RemoveManifests(ctx context.Context, api client.Client, direct client.Reader, kyma *v1beta2.Kyma) error {
	if kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive {
		return nil // the takeover is finished and has already deleted the Manifests
	}
	manifests, err := readManifests(ctx, direct, kyma)
	if err != nil {
		return err
	}
	var failed []error
	for i := range manifests {
		failed = append(failed, removeManifest(ctx, api, &manifests[i]))
	}
	return errors.Join(failed...)
}

// RemoveFinalizer removes lifecycle-manager's finalizer from a Kyma.
func RemoveFinalizer(kyma *v1beta2.Kyma) {
	controllerutil.RemoveFinalizer(kyma, v1beta2.LifecycleManagerFinalizerPurge)
}
