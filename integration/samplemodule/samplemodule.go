// Package samplemodule is a module with an operator of its own, made as module teams make theirs: a CRD, a default CR,
// a Deployment with its rights, a finalizer that can block, and an image that runs wherever there is a kubelet. Without
// one (kwok) its Deployment becomes ready and nothing acts on its CRs.
package samplemodule

import (
	_ "embed"
	"fmt"

	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Module is the module's name.
const Module = "beacon"

// ImageRepository is the repository that the operator's image would have.
const ImageRepository = "kyma-pull.dev"

// Names that the module gives.
const (
	Operator  = "beacon-operator" // Deployment in kyma-system
	Settings  = "beacon-settings" // ConfigMap in kyma-system
	DefaultCR = "default"         // Beacon in kyma-system, which the operator answers with ConfigMap beacon-default
	// LabelUses on a ConfigMap names a Beacon in its namespace; while one exists, the operator keeps its finalizer on the
	// Beacon.
	LabelUses = "beacon.kyma-pull.dev/uses"
	Finalizer = "beacon.kyma-pull.dev/operator"
)

// Image is the operator's, in a version. No registry serves it: it is loaded into the clusters.
func Image(version string) string { return ImageRepository + "/" + Operator + ":" + version }

// Versions that an image is made for. Patches of a version run its image.
const (
	VersionGood   = "1.0.0"
	VersionBetter = "1.1.0"
	// VersionPrioritized runs the image of VersionGood.
	VersionPrioritized = "1.0.1"
)

// Good is the version to begin with. Its PriorityClass is in no later one.
func Good() sample.Version {
	return version(VersionGood, Image(VersionGood), "", priority)
}

// Prioritized has pods of the PriorityClass that it brings, as versions of keda have. A later version without both must
// lose the one with the other.
func Prioritized() sample.Version {
	return version(VersionPrioritized, Image(VersionGood), "\n      priorityClassName: beacon", priority)
}

// Better answers in the same way with a newer operator.
func Better() sample.Version { return Patch(VersionBetter) }

// Patch is a version that runs the image of Better.
func Patch(number string) sample.Version {
	return version(number, Image(VersionBetter), "", "")
}

func version(number, image, pod, more string) sample.Version {
	content := fmt.Sprintf(manifest, number, image, pod) + more
	return sample.Version{
		Module: Module, Version: number, Manifest: content, Manager: Operator, DefaultCR: defaultCR,
		Resources: []sample.Resource{
			{
				Name: "raw-manifest", Type: "directoryTree", MediaType: "application/x-tar",
				Content: sample.Tar(Module+".yaml", content),
			},
			{Name: Operator, Type: "ociImage", Image: image},
		},
	}
}

const priority = `---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: beacon}
value: 1000
`

const defaultCR = `
apiVersion: beacon.kyma-pull.dev/v1
kind: Beacon
metadata: {name: default, namespace: kyma-system}
spec: {text: ahoy}
`

//go:embed manifest.yaml
var manifest string
