package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// AppliedVersion is the content of AnnotationApplied: the module version that was last applied completely. While a
// newer version cannot be applied, the agent keeps this version running and corrects its drift.
// +kubebuilder:object:generate=false
type AppliedVersion struct {
	Version string      `json:"version"`
	Install InstallInfo `json:"install"`
	Config  *ImageSpec  `json:"config,omitempty"`
	// Digest is the digest of everything that the Manifest requested. It includes parts that the annotation omits: the
	// default CR, and image lists that are too long.
	Digest          string   `json:"digest,omitempty"`
	LocalizedImages []string `json:"localizedImages,omitempty"`
	// Images is the value of AnnotationImages when the version was applied.
	Images string `json:"images,omitempty"`
	// Values is the value of AnnotationValues when the version was applied.
	Values string `json:"values,omitempty"`
	// ImagesLeftOut is true if LocalizedImages and Images were too long for the annotation. The agent cannot render a
	// version without its images again, so it does not correct the version's drift while another version cannot be
	// applied.
	ImagesLeftOut bool `json:"imagesLeftOut,omitempty"`
	// Begun is the Digest of another version that the agent has started to apply. From then on, the agent does not
	// correct drift of the version in this annotation.
	Begun string `json:"begun,omitempty"`
}

// maxAppliedBytes limits AnnotationApplied. Kubernetes allows 256 KiB for all annotations of an object together.
const maxAppliedBytes = 64 << 10

// RequestedVersion returns the version that the Manifest requests, as an AppliedVersion.
func (m *Manifest) RequestedVersion() AppliedVersion {
	wanted := AppliedVersion{
		Version: m.Spec.Version, Install: m.Spec.Install, Config: m.Spec.Config,
		LocalizedImages: m.Spec.LocalizedImages, Images: m.Annotations[AnnotationImages],
		Values: m.Annotations[AnnotationValues],
	}
	text, err := json.Marshal(struct {
		AppliedVersion
		Resource any
	}{wanted, m.Spec.Resource})
	if err != nil {
		return wanted // without a digest; the agent cannot apply a value that JSON cannot encode
	}
	sum := sha256.Sum256(text)
	wanted.Digest = "sha256:" + hex.EncodeToString(sum[:])
	if noted, err := json.Marshal(wanted); err == nil && len(noted) > maxAppliedBytes {
		wanted.LocalizedImages, wanted.Images, wanted.ImagesLeftOut = nil, "", true
	}
	return wanted
}

// Applied returns the version that was last applied completely, or nil if it is unknown.
func (m *Manifest) Applied() *AppliedVersion {
	text := m.Annotations[AnnotationApplied]
	if text == "" {
		return nil
	}
	var applied AppliedVersion
	if err := json.Unmarshal([]byte(text), &applied); err != nil {
		return nil
	}
	return &applied
}

// RunningVersion returns the version that was last applied, or the requested version if no applied version is recorded.
func (m *Manifest) RunningVersion() string {
	if applied := m.Applied(); applied != nil {
		return applied.Version
	}
	return m.Spec.Version
}
