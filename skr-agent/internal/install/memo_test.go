package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestDifferentManifestsHaveDifferentRequestKeys(t *testing.T) {
	annotated := func(annotations map[string]string) *v1beta2.Manifest {
		return &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Generation: 1, Annotations: annotations}}
	}
	require.NotEqual(t, requestKey(annotated(map[string]string{"a": "1 b:2"})),
		requestKey(annotated(map[string]string{"a": "1", "b": "2"})))
	require.Equal(t, requestKey(annotated(map[string]string{"a": "1", "b": "2"})),
		requestKey(annotated(map[string]string{"b": "2", "a": "1"})))
}
