package planning

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/installtest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

const home = v1beta2.RuntimeNamespace

// Parts of the sample module in package installtest.
const (
	sampleCRD   = installtest.SampleCRD
	sampleRest  = installtest.SampleRest
	sampleExtra = installtest.SampleExtra
)

var sample, crowd = installtest.Sample, installtest.Crowd

// makePlan calls Make with the given content.
func makePlan(
	rendered []*unstructured.Unstructured, defaultCR *unstructured.Unstructured, before []v1beta2.Resource,
	owner object.Owner, served content.Scope,
) (Plan, error) {
	return Make(content.Input{Objects: rendered, DefaultCR: defaultCR, Namespace: owner.Namespace, Scope: served},
		before, owner)
}

func newCrowdConfigMap(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetNamespace(home)
	o.SetName(name)
	return o
}
