package airgap

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// MaxUsedResponseBytes limits the size of a UsedResponse.
const MaxUsedResponseBytes = 4 << 20

// UsedRequest is a request to list the images that a module's objects use. kcp-publisher sends it to the program
// skr-agent, because only the agent contains the code that finds and rewrites image references.
type UsedRequest struct {
	Manifest bundle.Manifest `json:"manifest"`
	// Contents are the module's content blobs, by digest.
	Contents   map[digest.Digest][]byte `json:"contents"`
	Values     bundle.Values            `json:"values,omitempty"`
	ImagePaths []bundle.ImagePath       `json:"imagePaths,omitempty"`
	// KubernetesVersion is the Kubernetes version of the runtime, or empty if it is unknown.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UsedResponse lists the images that a module uses. If the module could not be rendered, Refused is the reason.
type UsedResponse struct {
	// Images are the image references before the agent replaces registries with mirrors, sorted and without duplicates.
	Images  []string `json:"images"`
	Refused string   `json:"refused,omitempty"`
}
