package controller

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// An operator moves a runtime from a suspended Kyma to a second Kyma, and later deletes the second Kyma. The first
// Kyma is then the only one with the runtime ID. When it is resumed, it must still not get a bundle.
func TestFormerOwnerGetsNoBundleAfterOwnerIsDeleted(t *testing.T) {
	for name, end := range map[string]func(next *v1beta2.Kyma){
		"runtime without a cluster": func(next *v1beta2.Kyma) { next.Labels[v1beta2.LabelRuntimeGone] = v1beta2.True },
		"runtime of another control plane": func(next *v1beta2.Kyma) {
			next.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
		},
	} {
		t.Run(name, func(t *testing.T) { checkFormerOwner(t, end) })
	}
}

// checkFormerOwner moves a runtime from a suspended Kyma to another one, calls end, and deletes the second Kyma. It
// then checks the first Kyma.
func checkFormerOwner(t *testing.T, end func(next *v1beta2.Kyma)) {
	t.Helper()
	w := newWaves(t, newSurroundings(t), 1)
	w.settle()
	former, next := &v1beta2.Kyma{}, kymaNamed("next", "next", w.now)
	get := func(kyma *v1beta2.Kyma, name string) error {
		return w.api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: name}, kyma)
	}
	newest := func() string {
		repository, err := w.place.Repository(t.Context(), bundle.DesiredRepository(pinnedName))
		w.must(err)
		fetched, err := store.Fetch(t.Context(), repository, bundle.TagDesired)
		w.must(err)
		return string(fetched.Bytes)
	}
	w.must(get(former, pinnedName))
	former.Status.Runtime.Assignment = &v1beta2.Assignment{Decided: 1}
	w.must(w.api.Status().Update(t.Context(), former))
	former.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
	w.must(w.api.Update(t.Context(), former))

	next.Finalizers = []string{v1beta2.FinalizerKyma}
	next.Labels = map[string]string{v1beta2.LabelRuntimeID: pinnedName}
	w.must(w.api.Create(t.Context(), next))
	next.Status = *former.Status.DeepCopy()
	next.Status.Runtime.Assignment.Decided = w.now.UnixMilli()
	w.must(w.api.Status().Update(t.Context(), next))
	before := newest()
	w.names = []string{"next"}
	w.poll()
	if newest() == before {
		t.Fatal("the new owner got no bundle")
	}
	w.must(get(next, "next"))
	end(next)
	w.must(w.api.Update(t.Context(), next))
	w.must(w.api.Delete(t.Context(), next))
	w.poll()
	w.poll()
	if err := get(next, "next"); !apierrors.IsNotFound(err) {
		t.Fatalf("the new owner is not deleted: %v", err)
	}

	before = newest()
	w.must(get(former, pinnedName))
	former.Labels = nil
	w.must(w.api.Update(t.Context(), former))
	w.names = []string{pinnedName}
	w.poll()
	w.must(get(former, pinnedName))
	s := former.Status.Runtime
	if newest() != before || s.AssignedTo != "kcp-system/next" || s.Reasons == nil ||
		s.Reasons.Publish != v1beta2.Reason(reason.RuntimeHandedOver) {
		t.Errorf("got a new bundle %t and status %+v, want no bundle and reason RuntimeHandedOver", newest() != before, s)
	}
}
