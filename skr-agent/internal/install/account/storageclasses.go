package account

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// BindsLate reports whether a StorageClass binds volumes only when a Pod uses them. It returns false if the class does
// not exist. It sends a list request, because an agent without cluster-admin can list all kinds, but cannot get a
// StorageClass.
func (a *Account) BindsLate(ctx context.Context, class string) (bool, error) {
	if class == "" {
		return false, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClassList"})
	if err := a.Client.List(ctx, list, client.MatchingFields{"metadata.name": class}); err != nil {
		return false, err
	}
	return len(list.Items) == 1 && object.Text(&list.Items[0], "volumeBindingMode") == "WaitForFirstConsumer", nil
}
