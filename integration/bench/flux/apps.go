package main

import (
	"fmt"
	"path"

	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const namespace = "apps"

// app returns an application like those in Flux's own benchmark: a Deployment without replicas, a ServiceAccount, a
// Service and an Ingress.
func app(i int, version string) sample.Version {
	name := appName(i)
	return sample.Version{Module: name, Version: version, Manifest: fmt.Sprintf(objects, name, namespace, version)}
}

// appName returns a module name. Module names must not contain digits.
func appName(i int) string {
	letter := func(place int) rune { return rune('a' + i/place%26) }
	return fmt.Sprintf("app-%c%c%c", letter(26*26), letter(26), letter(1))
}

// Every application has two versions.
const (
	first  = "1.0.0"
	second = "2.0.0"
)

// appFiles returns the files of an application's Flux artifact.
func appFiles(v sample.Version) map[string]string {
	file := path.Base(v.Module) + ".yaml"
	return map[string]string{
		file: v.Manifest,
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + file +
			"]\n",
	}
}

const objects = `apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: %[2]s}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  type: ClusterIP
  selector: {app.kubernetes.io/name: %[1]s}
  ports:
  - {name: http, port: 9898, protocol: TCP, targetPort: http}
  - {name: grpc, port: 9999, protocol: TCP, targetPort: grpc}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: 0
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  selector: {matchLabels: {app.kubernetes.io/name: %[1]s}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: %[1]s}
      annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9898"}
    spec:
      serviceAccountName: %[1]s
      containers:
      - name: app
        image: example.org/app:%[3]s
        command: [./app, --port=9898, --grpc-port=9999, --level=info]
        ports:
        - {name: http, containerPort: 9898, protocol: TCP}
        - {name: grpc, containerPort: 9999, protocol: TCP}
        livenessProbe: {httpGet: {path: /healthz, port: http}, initialDelaySeconds: 1, timeoutSeconds: 5}
        readinessProbe: {httpGet: {path: /readyz, port: http}, initialDelaySeconds: 1, timeoutSeconds: 5}
        resources: {requests: {cpu: 1m, memory: 16Mi}}
        volumeMounts:
        - {name: data, mountPath: /data}
      volumes:
      - {name: data, emptyDir: {}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  ingressClassName: nginx
  rules:
  - host: %[1]s.example.org
    http:
      paths:
      - {path: /, pathType: ImplementationSpecific, backend: {service: {name: %[1]s, port: {number: 9898}}}}
`
