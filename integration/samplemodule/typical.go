package samplemodule

import (
	_ "embed"
	"fmt"

	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// TypicalModule is the name of the module that Typical returns.
const TypicalModule = "lantern"

// TypicalManager is the name of module lantern's Deployment in kyma-system.
const TypicalManager = "lantern-manager"

// TypicalObjects is the number of objects that the module Typical installs, including the default CR.
const TypicalObjects = 27

// Typical returns a module version of typical size: CRDs, a Deployment with RBAC rules, webhooks, ConfigMaps and a
// default CR. Versions differ only in the Deployment and in one ConfigMap.
func Typical(number string) sample.Version {
	image := ImageRepository + "/" + TypicalManager + ":" + number
	content := fmt.Sprintf(typical, number, image)
	return sample.Version{
		Module: TypicalModule, Version: number, Manifest: content, Manager: TypicalManager, DefaultCR: typicalCR,
		Resources: []sample.Resource{
			{
				Name: "raw-manifest", Type: "directoryTree", MediaType: "application/x-tar",
				Content: sample.Tar(TypicalModule+".yaml", content),
			},
			{Name: TypicalManager, Type: "ociImage", Image: image},
		},
	}
}

const typicalCR = `
apiVersion: lantern.kyma-pull.dev/v1
kind: Lantern
metadata: {name: default, namespace: kyma-system}
spec: {text: bright}
`

//go:embed typical.yaml
var typical string
