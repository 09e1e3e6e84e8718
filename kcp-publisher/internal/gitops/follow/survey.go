package follow

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// ControlPlane is the namespace to which commits are applied.
type ControlPlane struct {
	Client client.Client
	// Reader reads from the API server, because the manager's cache does not contain ConfigMaps.
	Reader    client.Reader
	Namespace string
	// Pruning limits a commit's deletions.
	Pruning Pruning
}

// Survey describes a commit's effect on the current control plane.
type Survey struct {
	Plan Plan
	// Live contains the existing objects for all kinds in this commit and in earlier commits.
	Live map[Key]*unstructured.Unstructured
	// Left contains the names of objects in the commit that are not applied.
	Left []string

	record   *record
	previous Inventory
	allowed  bool
}

// Survey reads the control plane and changes nothing. The error is the reason why the commit would be refused.
func (c ControlPlane) Survey(ctx context.Context, commit string, objects source.Objects) (Survey, error) {
	wanted, left, err := wantedObjects(objects.Written, c.Namespace)
	if err != nil {
		return Survey{}, &failure{v1beta2.ReasonCommitRefused, err}
	}
	s := Survey{Left: left}
	if s.record, err = readRecord(ctx, c.Reader, c.Namespace); err != nil {
		return Survey{}, err
	}
	if s.previous, err = s.record.inventory(); err != nil {
		return Survey{}, err
	}
	if s.Live, err = c.readLive(ctx, wanted, s.previous.Keys); err != nil {
		return Survey{}, err
	}
	pruning := c.Pruning
	pruning.Allowed = s.record.Annotations[v1beta2.AnnotationAllowPrune]
	s.allowed = pruning.isApproved(commit)
	if s.Plan, err = newPlan(wanted, commit, s.Live, s.previous, pruning); err != nil {
		return Survey{}, &failure{v1beta2.ReasonCommitRefused, err}
	}
	return s, nil
}

// readLive reads all of the control plane's objects whose kind occurs in wanted or inventory. It skips a kind that the
// API server does not serve, because the dry run reports the missing kind.
func (c ControlPlane) readLive(
	ctx context.Context, wanted []source.Written, inventory []Key,
) (map[Key]*unstructured.Unstructured, error) {
	versions := map[schema.GroupKind]string{}
	for _, key := range inventory {
		versions[key.Kind] = ""
	}
	for _, w := range wanted {
		gvk := w.Object.GroupVersionKind()
		versions[gvk.GroupKind()] = gvk.Version
	}
	live := map[Key]*unstructured.Unstructured{}
	for kind, version := range versions {
		if version == "" {
			mapping, err := c.Client.RESTMapper().RESTMapping(kind)
			if meta.IsNoMatchError(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look up kind %s: %w", kind, err)
			}
			version = mapping.GroupVersionKind.Version
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.WithVersion(version).GroupVersion().WithKind(kind.Kind + "List"))
		err := c.Reader.List(ctx, list, client.InNamespace(c.Namespace))
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			live[KeyOf(&list.Items[i])] = &list.Items[i]
		}
	}
	return live, nil
}
