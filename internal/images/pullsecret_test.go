package images

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPullSecretIsAddedToAllWorkloads(t *testing.T) {
	for kind, c := range map[string]struct{ is, becomes string }{
		"Deployment of the operator": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager}, spec: {template: {spec: {containers: [{name: a, env: [{name: A, value: b}]}, {name: b}]}}}}`,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager}, spec: {template: {spec: {imagePullSecrets: [{name: pull}], containers: [{name: a, env: [{name: A, value: b}, {name: SKR_IMG_PULL_SECRET, value: pull}]}, {name: b, env: [{name: SKR_IMG_PULL_SECRET, value: pull}]}]}}}}`,
		},
		"StatefulSet with another pull Secret": {
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {template: {spec: {imagePullSecrets: [{name: own}], containers: [{name: a}]}}}}`,
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {template: {spec: {imagePullSecrets: [{name: own}, {name: pull}], containers: [{name: a}]}}}}`,
		},
		"DaemonSet with this pull Secret": {
			`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: manager}, spec: {template: {spec: {imagePullSecrets: [{name: pull}]}}}}`,
			`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: manager}, spec: {template: {spec: {imagePullSecrets: [{name: pull}]}}}}`,
		},
		"Job": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {}}}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {imagePullSecrets: [{name: pull}]}}}}`,
		},
		"CronJob": {
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {spec: {}}}}}}`,
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {spec: {imagePullSecrets: [{name: pull}]}}}}}}`,
		},
		"Pod": {
			`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}`,
			`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {imagePullSecrets: [{name: pull}]}}`,
		},
		"Deployment in another API group": {
			`{apiVersion: example.org/v1, kind: Deployment, spec: {template: {spec: {}}}}`,
			`{apiVersion: example.org/v1, kind: Deployment, spec: {template: {spec: {}}}}`,
		},
		"malformed Deployment is unchanged": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager}, spec: {template: {spec: {imagePullSecrets: a, containers: [b, {env: c}]}}}}`,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager}, spec: {template: {spec: {imagePullSecrets: a, containers: [b, {env: c}]}}}}`,
		},
		"Deployment without a pod template": {
			`{apiVersion: apps/v1, kind: Deployment, spec: {template: []}}`,
			`{apiVersion: apps/v1, kind: Deployment, spec: {template: []}}`,
		},
	} {
		o := object(t, c.is)
		require.NoError(t,
			AddPullSecret([]*unstructured.Unstructured{o}, "pull",
				func(o *unstructured.Unstructured) bool { return o.GetName() == "manager" }), kind)
		require.Equal(t, object(t, c.becomes).Object, o.Object, kind)
	}
}

func TestExistingPullSecretVariableIsRefused(t *testing.T) {
	o := object(t,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: home, name: manager}, spec: {template: {spec: {containers: [{name: a, env: [{name: SKR_IMG_PULL_SECRET, value: b}]}]}}}}`)
	err := AddPullSecret([]*unstructured.Unstructured{o}, "pull", func(*unstructured.Unstructured) bool { return true })
	require.ErrorContains(t, err,
		"Deployment home/manager: spec.template.spec.containers[0].env: SKR_IMG_PULL_SECRET already exists")
}
