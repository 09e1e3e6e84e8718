package account

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// Instances returns the names of a few custom resources of a CRD. It skips a resource if ignore returns true for it. If
// the resources cannot be listed, it returns a message instead.
func (a *Account) Instances(
	ctx context.Context, crd v1beta2.Resource, ignore func(guard.Key, *metav1.PartialObjectMetadata) bool,
) ([]string, error) {
	definition, err := a.Get(ctx, crd)
	if err != nil || definition == nil || definition.GetDeletionTimestamp() != nil {
		return nil, err
	}
	gvk, versions := guard.ServedKind(definition), guard.ServedVersions(definition)
	if len(versions) == 0 {
		return []string{fmt.Sprintf("objects of kind %s that cannot be listed (no version is served)", gvk.Kind)},
			nil
	}
	var found []string
	var failed error
	for _, version := range versions {
		gvk.Version = version
		if found, err = a.instancesIn(ctx, gvk, ignore); !IsUnconverted(err) && !IsUnserved(err) {
			failed = err
			break
		}
		if failed == nil || IsUnserved(failed) {
			failed = err // report a failed conversion even if another version is not served
		}
	}
	switch err := failed; {
	case IsUnserved(err) && agentobjects.IsEstablished(definition):
		return []string{fmt.Sprintf("objects of kind %s that cannot be listed (not served yet)", gvk.Kind)}, nil
	case IsUnserved(err):
		return nil, nil // the API server has never served a CRD that is not established
	case apierrors.IsInternalError(err):
		const repair = "repair the conversion webhook of the CRD, or set its spec.conversion.strategy to None"
		return []string{fmt.Sprintf("objects of kind %s that cannot be listed (%s): %s", gvk.Kind, apiMessage(err), repair)},
			nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return found, nil
}

// instancesIn is like Instances, but lists only one version.
func (a *Account) instancesIn(
	ctx context.Context, gvk schema.GroupVersionKind, ignore func(guard.Key, *metav1.PartialObjectMetadata) bool,
) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var found []string
	for {
		if err := a.Client.List(ctx, list, client.Limit(100), client.Continue(list.Continue)); err != nil {
			return nil, err
		}
		for n := range list.Items {
			o := &list.Items[n]
			k := object.KeyIn(gvk.GroupKind(), o.Namespace, o.Name)
			if !ignore(k, o) {
				found = append(found, k.String())
			}
		}
		if list.Continue == "" || len(found) > excerpt.Few {
			return found, nil
		}
	}
}
