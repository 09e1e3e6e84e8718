package sample

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"time"
)

// Greeter returns a module whose content is a Helm chart with its own values.
func Greeter(version string) Version {
	return Version{
		Module: "greeter", Version: version, Manager: "greeter",
		Resources: []Resource{
			{Name: "greeter", Type: "helmChart", MediaType: mediaTypeChart, Content: gzipped(Tar(
				"greeter/Chart.yaml", fmt.Sprintf(greeterChart, version),
				"greeter/values.yaml", "greeting: hello\nreplicas: 1\n",
				"greeter/crds/greetings.yaml", greeterCRD,
				"greeter/templates/_names.tpl", `{{- define "greeter.name" -}}{{ .Release.Name }}{{- end -}}`,
				"greeter/templates/greeter.yaml", greeterTemplate,
				"greeter/templates/NOTES.txt", "Say hello.",
			))},
			{Name: "config", Type: "yaml", MediaType: "application/yaml", Content: []byte("greeting: good morning\n")},
			{Name: "greeter-image", Type: "ociImage", Image: "example.org/greeter:" + version},
		},
	}
}

// Overlay returns a module whose content is a kustomization.
func Overlay(version string) Version {
	return Version{
		Module: "overlay", Version: version, Manager: "overlay-manager",
		Resources: []Resource{{Name: "overlay", Type: "kustomize", MediaType: "application/x-tar", Content: Tar(
			"kustomization.yaml", fmt.Sprintf(overlayKustomization, version),
			"base/kustomization.yaml", "resources: [deployment.yaml]\n",
			"base/deployment.yaml", overlayDeployment,
		)}},
	}
}

const greeterChart = `apiVersion: v2
name: greeter
version: %s
kubeVersion: ">=1.25.0-0"
`

const greeterCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.sample.kyma-pull.dev}
spec:
  group: sample.kyma-pull.dev
  names: {kind: Greeting, listKind: GreetingList, plural: greetings, singular: greeting}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {text: {type: string}}}}}}
`

const greeterTemplate = `apiVersion: sample.kyma-pull.dev/v1
kind: Greeting
metadata: {name: {{ include "greeter.name" . }}, namespace: {{ .Release.Namespace }}}
spec: {text: {{ .Values.greeting | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ include "greeter.name" . }}, namespace: {{ .Release.Namespace }}}
data:
  greeting: {{ .Values.greeting | quote }}
  kubernetes: {{ .Capabilities.KubeVersion.Version | quote }}
  deployments: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  looked-up: {{ lookup "v1" "Namespace" "" "kube-system" | len | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ include "greeter.name" . }}, namespace: {{ .Release.Namespace }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: greeter}}
  template:
    metadata: {labels: {app: greeter}}
    spec:
      containers:
      - {name: greeter, image: "example.org/greeter:{{ .Chart.Version }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: greeter-memory, namespace: {{ .Release.Namespace }}, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: v1
kind: Pod
metadata: {name: greeter-test, annotations: {helm.sh/hook: test}}
spec: {containers: [{name: test, image: example.org/test}]}
`

const overlayKustomization = `resources: [base]
namespace: kyma-system
namePrefix: overlay-
images:
- {name: example.org/overlay, newTag: "%[1]s"}
configMapGenerator:
- {name: settings, literals: ["version=%[1]s"], options: {disableNameSuffixHash: true}}
`

const overlayDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  replicas: 1
  selector: {matchLabels: {app: overlay}}
  template:
    metadata: {labels: {app: overlay}}
    spec:
      containers:
      - {name: manager, image: example.org/overlay}
`

// Tar packs files into a reproducible archive. The arguments alternate between file names and contents.
func Tar(files ...string) []byte {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for i := 0; i < len(files); i += 2 {
		header := &tar.Header{
			Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			panic(err) // writing to a bytes.Buffer cannot fail
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

func gzipped(data []byte) []byte {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(data); err != nil {
		panic(err) // writing to a bytes.Buffer cannot fail
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

// TarLink returns an archive with one symbolic link, which is invalid in a module.
func TarLink(name, target string) []byte {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target,
		Format: tar.FormatUSTAR}); err != nil {
		panic(err) // writing to a bytes.Buffer cannot fail
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

// Chart returns a chart with one template.
func Chart(name, template string) Resource {
	return Resource{Name: name, Type: "helmChart", MediaType: mediaTypeChart, Content: gzipped(Tar(
		name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n",
		name+"/templates/all.yaml", template,
	))}
}

const mediaTypeChart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
