// Package samplemodule is a module with its own operator, as Kyma teams write them. It has a CRD, a default CR, a
// Deployment with RBAC rules, a finalizer that can block, and an operator image. In a cluster without kubelets, its
// CRs are not reconciled.
package samplemodule

import (
	_ "embed"
	"fmt"

	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Module is the module's name.
const Module = "beacon"

// ImageRepository is the host in the operator's image reference. Tests load the image into the clusters.
const ImageRepository = "kyma-pull.dev"

// Names of the module's objects.
const (
	Operator  = "beacon-operator" // Deployment in kyma-system
	Settings  = "beacon-settings" // ConfigMap in kyma-system
	DefaultCR = "default"         // Beacon in kyma-system; the operator creates its ConfigMap beacon-default
	// LabelUses on a ConfigMap contains the name of a Beacon in the same namespace. The operator then keeps its
	// finalizer on the Beacon.
	LabelUses = "beacon.kyma-pull.dev/uses"
	Finalizer = "beacon.kyma-pull.dev/operator"
)

// Image returns the operator's image for a version of the module. Tests must load the image into the clusters.
func Image(version string) string { return ImageRepository + "/" + Operator + ":" + version }

// Versions of the module. Each has its own operator image, except VersionPrioritized.
const (
	VersionGood   = "1.0.0"
	VersionBetter = "1.1.0"
	// VersionPrioritized uses the same operator image as VersionGood.
	VersionPrioritized = "1.0.1"
)

// Good returns the initial version. Only this version and Prioritized contain the PriorityClass.
func Good() sample.Version {
	return version(VersionGood, Image(VersionGood), "", priority)
}

// Prioritized returns a version whose pods use the module's own PriorityClass. An upgrade to a version without the
// PriorityClass must update the Deployment before it deletes the PriorityClass.
func Prioritized() sample.Version {
	return version(VersionPrioritized, Image(VersionGood), "\n      priorityClassName: beacon", priority)
}

// Better returns a version with a newer operator and the same behavior.
func Better() sample.Version { return Patch(VersionBetter) }

// Patch returns a version with a different version number and the image of VersionBetter.
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
