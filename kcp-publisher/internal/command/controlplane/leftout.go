package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// ReadLeftOut returns the catalog objects that all bundles omit. It returns nil if the user is not permitted to list
// them.
func ReadLeftOut(ctx context.Context, api client.Reader, namespace string) ([]fleet.LeftOutObject, error) {
	var templates v1beta2.ModuleTemplateList
	var metas v1beta2.ModuleReleaseMetaList
	for _, list := range []client.ObjectList{&templates, &metas} {
		err := api.List(ctx, list, client.InNamespace(namespace))
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read the control plane: %w", err)
		}
	}
	snapshot, err := catalog.New(templates.Items, metas.Items)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	var all []fleet.LeftOutObject
	for _, w := range snapshot.WithheldObjects() {
		all = append(all, fleet.LeftOutObject{Object: w.Kind + " " + w.Key.String(), Reason: w.Err.Error()})
	}
	return all, nil
}
