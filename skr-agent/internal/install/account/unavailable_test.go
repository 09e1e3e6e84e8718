package account

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// failing is a client that fails all reads.
type failing struct {
	client.Client
	err    error
	mapper meta.RESTMapper
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.err }

func (f failing) RESTMapper() meta.RESTMapper { return f.mapper }

func TestUnavailableAPIIsNotListed(t *testing.T) {
	a := &Account{Client: failing{err: apierrors.NewServiceUnavailable("unable to handle the request")}}
	of := func(apiVersion, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(apiVersion)
		o.SetKind("Thing")
		o.SetName(name)
		return o
	}
	found, err := a.List(t.Context(), []*unstructured.Unstructured{of("example.org/v1", "a"), of("example.org/v1", "b")})
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = a.List(t.Context(), []*unstructured.Unstructured{of("apps/v1", "a"), of("apps/v1", "b")})
	require.Error(t, err)

	r := object.ResourceOf(of("example.org/v1", "a"))
	require.False(t, IsUnreadable(r, nil))
	require.Equal(t, "unable to handle the request: check the server of APIService v1.example.org",
		UnreadableText(r, apierrors.NewServiceUnavailable("unable to handle the request")))
}

func TestMissingPermissionToListAutoscalersIsReturned(t *testing.T) {
	version := schema.GroupVersion{Group: "autoscaling", Version: "v2"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	mapper.Add(version.WithKind("HorizontalPodAutoscaler"), meta.RESTScopeNamespace)
	scalers := schema.GroupResource{Resource: "horizontalpodautoscalers"}
	denied := apierrors.NewForbidden(scalers, "", errors.New("no right"))
	a := &Account{Client: failing{err: denied, mapper: mapper}}
	_, err := a.IsAutoscaled(t.Context(), v1beta2.Resource{
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "a",
	}, 3, nil)
	require.True(t, LacksRight(err), "got error %v", err)
}
