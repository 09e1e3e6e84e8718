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

// Survey is what a commit comes to with the control plane as it is.
type Survey struct {
	Plan Plan
	// Live are the objects of the commit's kinds, and of those that earlier ones brought.
	Live map[Key]*unstructured.Unstructured
	// Left names what the commit has and the control plane does not get.
	Left []string

	record *record
	before Inventory
	// allowed: an operator allowed the commit to delete whatever it deletes.
	allowed bool
}

// Survey reads what there is and changes nothing. The error says why the commit would be refused.
func (f *Follower) Survey(ctx context.Context, commit string, objects source.Objects) (Survey, error) {
	wanted, left, err := Wanted(objects.Written, f.Namespace)
	if err != nil {
		return Survey{}, &failure{v1beta2.ReasonCommitRefused, err}
	}
	s := Survey{Left: left}
	if s.record, err = f.readRecord(ctx); err != nil {
		return Survey{}, err
	}
	if s.before, err = s.record.inventory(); err != nil {
		return Survey{}, err
	}
	if s.Live, err = f.live(ctx, wanted, s.before.Keys); err != nil {
		return Survey{}, err
	}
	pruning := f.Pruning
	pruning.Allowed = s.record.Annotations[v1beta2.AnnotationAllowPrune]
	s.allowed = pruning.allows(commit)
	if s.Plan, err = NewPlan(wanted, commit, s.Live, s.before, pruning); err != nil {
		return Survey{}, &failure{v1beta2.ReasonCommitRefused, err}
	}
	return s, nil
}

// live reads the kinds that the commit or the inventory names. A kind that the API does not know is empty: if something
// of it is wanted, the dry run says so.
func (f *Follower) live(ctx context.Context, wanted []source.Written, inventory []Key) (map[Key]*unstructured.Unstructured, error) {
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
			mapping, err := f.Client.RESTMapper().RESTMapping(kind)
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
		err := f.Reader.List(ctx, list, client.InNamespace(f.Namespace))
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
