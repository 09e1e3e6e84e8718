// Package installtest contains module content for tests in package install and its subpackages.
package installtest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SampleCRD defines the kind Sample. In a module's content, it must come before all Samples.
const SampleCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: samples.example.kyma-project.io}
spec:
  group: example.kyma-project.io
  scope: Namespaced
  names: {kind: Sample, plural: samples, singular: sample, listKind: SampleList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`

// SampleRest contains the sample module's other objects.
const SampleRest = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sample-role}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: kyma-system, labels: {sample: here}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sample-config}
data: {key: value}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: sample-manager, namespace: kyma-system}
spec:
  selector: {matchLabels: {app: sample}}
  template:
    metadata: {labels: {app: sample}}
    spec: {containers: [{name: c, image: example.org/sample}]}
---
`

// SampleExtra contains objects that only one version of the sample module has.
const SampleExtra = `
apiVersion: v1
kind: ConfigMap
metadata: {name: sample-extra, namespace: kyma-system}
---
apiVersion: example.kyma-project.io/v1
kind: Sample
metadata: {name: bundled, namespace: kyma-system}
`

// Sample returns a custom resource for the sample module.
func Sample(name, namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.kyma-project.io/v1", "kind": "Sample",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": "small"},
	}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

// Crowd returns the YAML for ConfigMaps and Deployments with the names crowd-0, crowd-1, and so on.
func Crowd(configMaps, deployments int, image string) string {
	var text strings.Builder
	for i := range configMaps {
		fmt.Fprintf(&text,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: crowd-%d}\ndata: {key: value, number: \"%d\"}\n---\n", i,
			i)
	}
	for i := range deployments {
		fmt.Fprintf(&text, `apiVersion: apps/v1
kind: Deployment
metadata: {name: crowd-%d}
spec:
  replicas: 1
  selector: {matchLabels: {app: crowd-%d}}
  template:
    metadata: {labels: {app: crowd-%d}}
    spec: {containers: [{name: c, image: %s}]}
---
`, i, i, i, image)
	}
	return text.String()
}
