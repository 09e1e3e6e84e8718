package sample

import (
	"fmt"
	"strings"
)

// Scaler returns a module with a CRD, a default CR, an operator and RBAC rules, as in Kyma's keda module. Only
// version 1.7.0 contains a PriorityClass.
func Scaler(version string) Version {
	manifest := fmt.Sprintf(scaler, version)
	if version == "1.7.0" {
		manifest += "---\n" + scalerPriority
	}
	return Version{Module: "scaler", Version: version, Manifest: manifest, Manager: "scaler-manager", DefaultCR: `
apiVersion: sample.kyma-pull.dev/v1
kind: Scaler
metadata: {name: default, namespace: kyma-system}
spec: {interval: 30}
`}
}

// BrokenScaler returns a version of Scaler whose operator never becomes ready.
func BrokenScaler(version string) Version {
	v := Scaler(version)
	v.Manifest = strings.Replace(v.Manifest, "name: scaler-manager, namespace: kyma-system, labels: {app: scaler}",
		"name: scaler-manager, namespace: kyma-system, labels: {app: scaler}, annotations: {kyma-pull.dev/simulate: "+
			"broken}", 1)
	return v
}

// Mailer returns a small module without a CRD.
func Mailer(version string) Version {
	return Version{Module: "mailer", Version: version, Manifest: fmt.Sprintf(mailer, version), Manager: "mailer"}
}

const scalerPriority = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: scaler-priority}
value: 2000
`

const scaler = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scalers.sample.kyma-pull.dev}
spec:
  group: sample.kyma-pull.dev
  names: {kind: Scaler, listKind: ScalerList, plural: scalers, singular: scaler}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {interval: {type: integer}}}
          status: {type: object, properties: {state: {type: string}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: scaler-manager, namespace: kyma-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scaler-manager}
rules:
- {apiGroups: [sample.kyma-pull.dev], resources: [scalers, scalers/status], verbs: [get, list, watch, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scaler-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scaler-manager}
subjects:
- {kind: ServiceAccount, name: scaler-manager, namespace: kyma-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: scaler-settings, namespace: kyma-system}
data: {version: "%[1]s", level: info}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaler-manager, namespace: kyma-system, labels: {app: scaler}}
spec:
  replicas: 1
  selector: {matchLabels: {app: scaler}}
  template:
    metadata: {labels: {app: scaler}}
    spec:
      serviceAccountName: scaler-manager
      containers:
      - {name: manager, image: "example.org/scaler:%[1]s"}
`

const mailer = `
apiVersion: v1
kind: ConfigMap
metadata: {name: mailer-settings, namespace: kyma-system}
data: {version: "%[1]s"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: mailer, namespace: kyma-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: mailer}}
  template:
    metadata: {labels: {app: mailer}}
    spec:
      containers:
      - {name: mailer, image: "example.org/mailer:%[1]s"}
`
