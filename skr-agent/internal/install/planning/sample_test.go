package planning

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/installtest"
)

const home = v1beta2.RuntimeNamespace

// The sample module of installtest.
const (
	sampleCRD   = installtest.SampleCRD
	sampleRest  = installtest.SampleRest
	sampleExtra = installtest.SampleExtra
)

var sample, crowd = installtest.Sample, installtest.Crowd

// liveObject returns an object with the given YAML. Unlike objects, it accepts objects that cannot be installed.
func liveObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(encoded))
	return o
}

func oneOfCrowd(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetNamespace(home)
	o.SetName(name)
	return o
}
