package airgap

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// MaxUsedAnswerBytes bounds the answer about one module: ten thousand long references.
const MaxUsedAnswerBytes = 4 << 20

// UsedQuestion asks an agent's program which images the objects of a module use. Only the agent knows how it rewrites
// them.
type UsedQuestion struct {
	Manifest bundle.Manifest `json:"manifest"`
	// Contents are the blobs for rendering, by digest.
	Contents map[digest.Digest][]byte `json:"contents"`
	// Values are the runtime's values that the module uses.
	Values bundle.Values `json:"values,omitempty"`
	// ImagePaths are the fields of custom resources that hold images.
	ImagePaths []bundle.ImagePath `json:"imagePaths,omitempty"`
	// KubernetesVersion is the runtime's, or empty if it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UsedAnswer lists the images, or contains the reason why the module cannot be rendered.
type UsedAnswer struct {
	// Images are the references that are applied without mirrors, sorted and without duplicates.
	Images  []string `json:"images"`
	Refused string   `json:"refused,omitempty"`
}
