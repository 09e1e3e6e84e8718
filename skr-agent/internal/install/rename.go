package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// A module that was renamed is another Manifest, which takes over the objects of the one before. A bundle says so: the syncer marks both. The order
// is what makes it safe: the one before leaves its objects alone from its mark on; its successor writes their list into its own status; the one before
// goes once that list is there; and only then does its successor apply anything, and prune what it does not have. At every point at least one of
// both has the list.

// handOver ends the work on a Manifest whose module has another name now. Its objects stay as they are.
func (i *Installer) handOver(ctx context.Context, m *v1beta2.Manifest) (outcome, error) {
	name := m.Annotations[v1beta2.AnnotationRenamedTo]
	successor := &v1beta2.Manifest{}
	// From the cache, by which it is decided which watches nobody needs any more.
	err := i.cached.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, successor)
	if client.IgnoreNotFound(err) != nil {
		return outcome{}, fmt.Errorf("read the Manifest that takes over: %w", err)
	}
	if err == nil && !m.DeletionTimestamp.IsZero() && tookOver(m, successor) {
		return outcome{gone: true}, nil
	}
	return i.waiting(m, i.remembered(m), outcome{inventory: m.Status.Synced}, fmt.Sprintf("the module is called %s now, which takes over its objects", name)), nil
}

// tookOver reports whether a Manifest has all objects of the one before it in its list.
func tookOver(former, successor *v1beta2.Manifest) bool {
	return successor.Annotations[v1beta2.AnnotationRenamedFrom] == former.Name && successor.DeletionTimestamp.IsZero() &&
		len(without(former.Status.Synced, keysOf(successor.Status.Synced))) == 0
}

// inherit returns what a Manifest is to wait for while it takes over the objects of its module by the former name, with their list, which is written
// down with the waiting; nil once the Manifest before is gone, or where none hands anything over.
func (i *Installer) inherit(ctx context.Context, m *v1beta2.Manifest) (*outcome, error) {
	name := m.Annotations[v1beta2.AnnotationRenamedFrom]
	if name == "" {
		return nil, nil
	}
	former := &v1beta2.Manifest{}
	if err := i.cached.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, former); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if former.Annotations[v1beta2.AnnotationRenamedTo] != m.Name {
		return nil, nil // both are wanted, and have to share no object
	}
	out := i.waiting(m, i.remembered(m), outcome{inventory: union(m.Status.Synced, former.Status.Synced)},
		fmt.Sprintf("waiting until module %s, as it was called before, has handed over its objects", former.Module()))
	return &out, nil
}

// formerMark returns the mark of the module's objects by its former name, empty for none. While a Manifest of that name is there, they are that one's.
func (i *Installer) formerMark(m *v1beta2.Manifest) string {
	name := m.Annotations[v1beta2.AnnotationRenamedFrom]
	if name == "" {
		return ""
	}
	at := client.ObjectKey{Namespace: m.Namespace, Name: name}
	if err := i.cached.Get(context.Background(), at, &v1beta2.Manifest{}); !apierrors.IsNotFound(err) {
		return ""
	}
	return at.String()
}

// inheritDefaultCR puts the Manifest's mark on the default CR that the module made by its former name. What is in it is its user's.
func (i *Installer) inheritDefaultCR(ctx context.Context, m *v1beta2.Manifest, p plan) error {
	by := i.owner(m)
	if by.Former == "" || p.defaultCR == nil {
		return nil
	}
	a := i.actor(m)
	live, err := a.owned(ctx, resourceOf(p.defaultCR))
	if err != nil || live == nil || live.Annotations[v1beta2.AnnotationOwnedBy] != by.Former {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{%q:%q},"annotations":{%q:%q}}}`,
		live.ResourceVersion, v1beta2.LabelModuleName, by.Module, v1beta2.AnnotationOwnedBy, by.Mark)
	object := &metav1.PartialObjectMetadata{TypeMeta: live.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	if err := a.cluster.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take over %s: %w", guard.KeyOf(p.defaultCR), err)
	}
	return nil
}
