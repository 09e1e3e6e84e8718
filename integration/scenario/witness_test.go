package scenario

import (
	"fmt"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	appsv1 "k8s.io/api/apps/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// objectVersions returns the resource versions of module scaler's objects and its Manifest's generation. If two results
// are equal, no object changed.
func objectVersions(t *testing.T, r *fleet.Runtime) string {
	t.Helper()
	config, err := settings(t.Context(), r)
	must(t, err)
	deployment := &appsv1.Deployment{}
	must(t, r.API.Get(t.Context(), inKyma("scaler-manager"), deployment))
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(t.Context(), inKyma("scaler"), manifest))
	return fmt.Sprint(config.ResourceVersion, " ", deployment.ResourceVersion, " ", manifest.Generation)
}

// mountFrom mounts a blob from another runtime's repository, as the registry's owner could.
func mountFrom(t *testing.T, f *fleet.Fleet, to oras.Target, runtime string, d ocispec.Descriptor) {
	t.Helper()
	from, err := f.Place.Repository(t.Context(), bundle.DesiredRepository(runtime))
	must(t, err)
	data, err := content.FetchAll(t.Context(), from, d)
	must(t, err)
	must(t, store.PushBlob(t.Context(), to, bundle.Blob{Descriptor: d, Bytes: data}))
}
