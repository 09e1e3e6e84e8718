package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

const home = v1beta2.RuntimeNamespace

func objects(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	found, err := render.Render(render.Input{Content: []byte(yaml), Packed: v1beta2.OCIRef})
	require.NoError(t, err)
	return found
}
