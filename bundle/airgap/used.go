package airgap

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// MaxUsedAnswerBytes bounds what one module may say of its images: ten thousand long references.
const MaxUsedAnswerBytes = 4 << 20

// UsedQuestion asks a program that renders as the agent does which images the objects of a module use. The publisher
// itself renders nothing.
type UsedQuestion struct {
	Manifest bundle.Manifest `json:"manifest"`
	// Contents are the blobs that rendering needs, by digest.
	Contents map[digest.Digest][]byte `json:"contents"`
	// ImagePaths are the fields of custom resources that hold images.
	ImagePaths []bundle.ImagePath `json:"imagePaths,omitempty"`
	// KubernetesVersion is the runtime's, empty where it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// UsedAnswer is what such a program says: the images, or why the module cannot be rendered.
type UsedAnswer struct {
	// Images are references as they are applied where no mirrors are, each once, sorted.
	Images  []string `json:"images"`
	Refused string   `json:"refused,omitempty"`
}
