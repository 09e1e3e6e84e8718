package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// The holder of the Lease renews it between the publisher's read and write of the annotation.
func TestRootExpiryIsWrittenToTheLease(t *testing.T) {
	ctx := t.Context()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "kcp-system", Name: LeaseName}
	writes, between := 0, func() error { return nil }
	api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			if err := between(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		}}).Build()
	notes := rootAnnotator{reader: api, writer: api, lease: key}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	root := trust.Root{Fleet: "north", Epoch: 1, Version: 3, Expires: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}

	notes.writeNote(ctx, root, now) // before the Lease exists
	if err := api.Create(ctx,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Annotations: map[string]string{"a": "b"}}}); err != nil {
		t.Fatal(err)
	}
	between = func() error { return errors.New("no connection") }
	notes.writeNote(ctx, root, now)
	renewed := "another process"
	between = func() error {
		if writes > 2 {
			return nil
		}
		lease := &coordinationv1.Lease{}
		if err := api.Get(ctx, key, lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity = &renewed
		if err := api.Patch(ctx, lease, client.Merge); err != nil {
			return err
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, key.Name, errors.New("was renewed"))
	}
	for range 3 {
		notes.writeNote(ctx, root, now)
	}
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, key, lease); err != nil {
		t.Fatal(err)
	}
	got, err := fleet.ParseRootNote(lease.Annotations[v1beta2.AnnotationRootOfTrust])
	if err != nil || got != (fleet.RootNote{Epoch: 1, Version: 3, Expires: root.Expires, Fleet: "north"}) ||
		lease.Annotations["a"] != "b" {
		t.Errorf("got root %+v and error %v from annotations %v", got, err, lease.Annotations)
	}
	if writes != 3 {
		t.Errorf("got %d writes, want 3: a failed one, a conflict with a renewal, and a successful one", writes)
	}

	// Another client deletes the annotation.
	between = func() error { return nil }
	delete(lease.Annotations, v1beta2.AnnotationRootOfTrust)
	if err := api.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	for range 3 {
		notes.writeNote(ctx, root, now)
	}
	if err := api.Get(ctx, key, lease); err != nil || lease.Annotations[v1beta2.AnnotationRootOfTrust] == "" ||
		writes != 5 {
		t.Errorf("got annotations %v, error %v, %d writes, want the root and 5 writes", lease.Annotations, err,
			writes)
	}
}
