package install

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// strangers finds objects of a plan that are there and not the module's, before anything is written. What is in the
// inventory of a module that was installed whole is the module's, whoever replaced it meanwhile: that is drift. Custom
// resources that the API server cannot read are noted in the plan; they are applied once they can be read.
func (i *Installer) strangers(ctx context.Context, m *v1beta2.Manifest, p *plan) (*finding, error) {
	by, before, whole := i.owner(m), keysOf(m.Status.Synced), installed(m)
	others, err := i.others(ctx, m)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var strange []string
	p.unread = map[key]string{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	look := func(o *unstructured.Unstructured, accepted func(*metav1.PartialObjectMetadata) bool) {
		group.Go(func() error {
			live, err := i.actor(m).owned(ctx, resourceOf(o))
			unreadable := apierrors.IsInternalError(err) && guard.IsCustom(o.GroupVersionKind().Group)
			if !unreadable && (err != nil || live == nil || accepted(live)) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if unreadable {
				p.unread[guard.KeyOf(o)] = plain(err)
				return nil
			}
			strange = append(strange, guard.KeyOf(o).String()+guard.Whose(live))
			return nil
		})
	}
	for _, o := range slices.Concat(p.stages[:]...) {
		known := before.has(guard.KeyOf(o))
		if !known || !whole {
			look(o, func(live *metav1.PartialObjectMetadata) bool {
				takes := live.DeletionTimestamp.IsZero() &&
					(p.takesOver(guard.KeyOf(o), live.Annotations[v1beta2.AnnotationOwnedBy], by) ||
						isAbandoned(guard.KeyOf(o), live, others))
				return by.Owns(live) || takes || known && guard.Applied(live, i.FieldManager)
			})
		}
	}
	if p.defaultCR != nil {
		look(
			p.defaultCR,
			func(live *metav1.PartialObjectMetadata) bool { return by.Owns(live) || !by.IsOtherManifests(live) },
		)
	}
	if err := group.Wait(); err != nil || len(strange) == 0 {
		return nil, err
	}
	const text = "nothing was applied: %s: there already and not made by this module: " +
		"rename it in the module, delete it, or hand it over with the annotation %s=%s"
	return &finding{
		reason:  v1beta2.ReasonConflict,
		message: fmt.Sprintf(text, firstFew(strange), v1beta2.AnnotationAdopt, by.Mark),
	}, nil
}
