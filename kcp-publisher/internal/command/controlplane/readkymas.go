package controlplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// DividedRuntimes contains the healthy runtimes, which were read from rows of the API server's table, and the names of
// the Kymas that the caller must read completely. The zero value means that the caller must read all Kymas.
type DividedRuntimes struct {
	Healthy map[types.NamespacedName]fleet.Runtime
	// unready and others are the names of the Kymas to read. The Kymas in others are in state Ready.
	unready, others []types.NamespacedName
}

// KymaSelector selects Kymas. An empty namespace selects all namespaces.
type KymaSelector struct {
	Namespace string
	Selector  labels.Selector
	fields    fields.Selector
}

// ReadKymas reads all selected Kymas in pages.
func ReadKymas(ctx context.Context, api client.Reader, of KymaSelector) ([]v1beta2.Kyma, error) {
	var kymas []v1beta2.Kyma
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list := &v1beta2.KymaList{}
		return list, api.List(ctx, list, &client.ListOptions{
			Namespace: of.Namespace, LabelSelector: of.Selector, FieldSelector: of.fields, Limit: options.Limit,
			Continue: options.Continue,
		})
	})
	pages.PageSize = PageSize
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		kymas = append(kymas, *object.(*v1beta2.Kyma))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list Kymas: %w", err)
	}
	return kymas, nil
}

// PageSize is the number of Kymas in one response from the API server.
const PageSize = 500
