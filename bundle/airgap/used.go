package airgap

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// MaxUsedAnswerBytes limits the size of a UsedResponse.
const MaxUsedAnswerBytes = 4 << 20

// UsedRequest requests the images that the objects of a module use. The agent's program responds to it, because only
// the agent knows how it rewrites image references.
type UsedRequest struct {
	Manifest bundle.Manifest `json:"manifest"`
	// Contents are the blobs of the module, by digest.
	Contents   map[digest.Digest][]byte `json:"contents"`
	Values     bundle.Values            `json:"values,omitempty"`
	ImagePaths []bundle.ImagePath       `json:"imagePaths,omitempty"`
	// KubernetesVersion is the Kubernetes version of the runtime, or empty if it is unknown.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UsedResponse lists the images of a module, or contains the reason why rendering failed.
type UsedResponse struct {
	// Images are the image references without registry mirrors, sorted and without duplicates.
	Images  []string `json:"images"`
	Refused string   `json:"refused,omitempty"`
}
