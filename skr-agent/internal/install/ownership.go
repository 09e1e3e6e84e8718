package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// made reports whether the object has the Manifest's mark.
func (by owner) made(o *metav1.PartialObjectMetadata) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == by.mark
}

// owns reports whether an object is the Manifest's to write and to delete. It is when it bears the Manifest's mark, or when taking it over
// was asked for: with an annotation that names the Manifest, or by lifecycle-manager's having installed it for the same module, or by its
// having been left in place when this module was unmanaged.
func (by owner) owns(o *metav1.PartialObjectMetadata) bool {
	mark, module := o.Annotations[v1beta2.AnnotationOwnedBy], o.Labels[v1beta2.LabelModuleName]
	if by.made(o) || o.Annotations[v1beta2.AnnotationAdopt] == by.mark {
		return true
	}
	return by.installedByKyma(o) || mark == "" && module == by.module
}

// ownsDefaultCR is owns for a default CR, on which lifecycle-manager leaves no more than a label.
func (by owner) ownsDefaultCR(o *metav1.PartialObjectMetadata) bool {
	bare := o.Annotations[v1beta2.AnnotationOwnedBy]+o.Annotations[v1beta2.AnnotationOwnedByDeprecated]+o.Labels[v1beta2.LabelModuleName] == ""
	return !by.isOtherManifests(o) && (by.owns(o) || bare && isKymas(o))
}

// installedByKyma reports whether lifecycle-manager installed an object for this module: it marks objects with its Manifest, which is in
// the control plane and is called KYMA-COMPONENT-HASH. What a Manifest of this runtime made since is that one's.
func (by owner) installedByKyma(o *metav1.PartialObjectMetadata) bool {
	if !isKymas(o) || strings.HasPrefix(o.Annotations[v1beta2.AnnotationOwnedBy], by.namespace+"/") {
		return false
	}
	return slices.ContainsFunc([]string{v1beta2.AnnotationOwnedByDeprecated, v1beta2.AnnotationOwnedBy}, func(annotation string) bool {
		_, manifest, _ := strings.Cut(o.Annotations[annotation], "/")
		return slices.ContainsFunc([]string{by.module, by.component}, func(name string) bool {
			return name != "" && strings.Contains("-"+manifest+"-", "-"+name+"-")
		})
	})
}

// mayDelete returns what tells which objects in a Manifest's list are deleted with it: those that it made. One that inherited objects deletes
// those as well, of which the mark still says that lifecycle-manager installed them for its module: a mark alone, which anybody can write,
// deletes nothing that is in no list.
func (by owner) mayDelete(m *v1beta2.Manifest) func(*metav1.PartialObjectMetadata) bool {
	if m.Annotations[v1beta2.AnnotationInherited] == "" {
		return by.made
	}
	return func(o *metav1.PartialObjectMetadata) bool { return by.made(o) || by.installedByKyma(o) }
}

// isKymas reports whether an object bears a label of lifecycle-manager's, in its present or its former version.
func isKymas(o *metav1.PartialObjectMetadata) bool {
	return slices.Contains([]string{v1beta2.ManagedByKyma, "declarative-v2"}, o.Labels[v1beta2.LabelManagedBy])
}

// applied reports whether an object was applied under our name. That stays when somebody takes the mark away.
func applied(o *metav1.PartialObjectMetadata, manager string) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == "" && slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

// strangers finds objects of a plan that are there and not the module's, before anything is written. What is in the inventory of a module
// that was installed whole is the module's, whoever replaced it meanwhile: that is drift.
func (i *Installer) strangers(ctx context.Context, m *v1beta2.Manifest, p plan) (*finding, error) {
	by, before, whole := i.owner(m), keysOf(m.Status.Synced), installed(m)
	var mu sync.Mutex
	var strange []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	look := func(o *unstructured.Unstructured, accepted func(*metav1.PartialObjectMetadata) bool) {
		group.Go(func() error {
			live, err := i.actor(m).owned(ctx, resourceOf(o))
			if err != nil || live == nil || accepted(live) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			strange = append(strange, keyOfObject(o).String()+whose(live))
			return nil
		})
	}
	for _, o := range slices.Concat(p.stages[:]...) {
		known := before.has(keyOfObject(o))
		if !known || !whole {
			look(o, func(live *metav1.PartialObjectMetadata) bool {
				return by.owns(live) || known && applied(live, i.FieldManager)
			})
		}
	}
	if p.defaultCR != nil {
		look(p.defaultCR, func(live *metav1.PartialObjectMetadata) bool { return by.owns(live) || !by.isOtherManifests(live) })
	}
	if err := group.Wait(); err != nil || len(strange) == 0 {
		return nil, err
	}
	const text = "nothing was applied: %s: there already and not made by this module: " +
		"rename it in the module, delete it, or hand it over with the annotation %s=%s"
	return &finding{reason: v1beta2.ReasonConflict, message: fmt.Sprintf(text, firstFew(strange), v1beta2.AnnotationAdopt, by.mark)}, nil
}

// isOtherManifests reports whether another Manifest of this runtime made an object. A default CR that nobody marked is its user's, and
// left to them.
func (by owner) isOtherManifests(o *metav1.PartialObjectMetadata) bool {
	mark := o.Annotations[v1beta2.AnnotationOwnedBy]
	return !by.made(o) && strings.HasPrefix(mark, by.namespace+"/")
}

func whose(o *metav1.PartialObjectMetadata) string {
	if mark := cmp.Or(o.Annotations[v1beta2.AnnotationOwnedBy], o.Annotations[v1beta2.AnnotationOwnedByDeprecated]); mark != "" {
		return " (of " + mark + ")"
	}
	return ""
}
