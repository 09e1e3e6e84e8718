package airgap

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// MaxUsedAnswerBytes limits the size of a UsedResponse, which is for one module. It is enough for ten thousand long
// references.
const MaxUsedAnswerBytes = 4 << 20

// UsedRequest asks the agent's program for the images that the objects of a module use. Only the agent knows how it
// rewrites image references.
type UsedRequest struct {
	Manifest bundle.Manifest `json:"manifest"`
	// Contents are the blobs for rendering, by digest.
	Contents map[digest.Digest][]byte `json:"contents"`
	// Values are the runtime's values that the module uses.
	Values bundle.Values `json:"values,omitempty"`
	// ImagePaths are the fields of custom resources that contain images.
	ImagePaths []bundle.ImagePath `json:"imagePaths,omitempty"`
	// KubernetesVersion is the Kubernetes version of the runtime, or empty if it is unknown.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UsedResponse lists the images, or contains the reason why the module cannot be rendered.
type UsedResponse struct {
	// Images are the image references that an agent without registry mirrors would apply, sorted and without
	// duplicates.
	Images  []string `json:"images"`
	Refused string   `json:"refused,omitempty"`
}
