package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// AppliedVersion is the version of a module that was applied whole last, as AnnotationApplied of its Manifest has it:
// while a newer one is refused, it is what runs and is kept in line.
// +kubebuilder:object:generate=false
type AppliedVersion struct {
	Version string      `json:"version"`
	Install InstallInfo `json:"install"`
	Config  *ImageSpec  `json:"config,omitempty"`
	// Digest is of all that the Manifest asked for, with what is not noted: its default CR, and lists of images that are
	// too long.
	Digest          string   `json:"digest,omitempty"`
	LocalizedImages []string `json:"localizedImages,omitempty"`
	// Images is AnnotationImages of that time.
	Images string `json:"images,omitempty"`
	// ImagesLeftOut says that LocalizedImages and Images are too long to be noted. Nobody knows then how the version's
	// objects are made: it is not kept in line while another one is refused.
	ImagesLeftOut bool `json:"imagesLeftOut,omitempty"`
	// Begun is the Digest of another version that was begun to be applied since: this one is not kept in line any more.
	Begun string `json:"begun,omitempty"`
}

// maxAppliedBytes is how much of the 256 KiB that an object has for all its annotations is used.
const maxAppliedBytes = 64 << 10

// Wanted returns what a Manifest asks for, in the form of what was applied.
func (m *Manifest) Wanted() AppliedVersion {
	wanted := AppliedVersion{
		Version: m.Spec.Version, Install: m.Spec.Install, Config: m.Spec.Config, LocalizedImages: m.Spec.LocalizedImages, Images: m.Annotations[AnnotationImages],
	}
	text, err := json.Marshal(struct {
		AppliedVersion
		Resource any
	}{wanted, m.Spec.Resource})
	if err != nil {
		return wanted // what cannot be encoded cannot be applied either
	}
	sum := sha256.Sum256(text)
	wanted.Digest = "sha256:" + hex.EncodeToString(sum[:])
	if noted, err := json.Marshal(wanted); err == nil && len(noted) > maxAppliedBytes {
		wanted.LocalizedImages, wanted.Images, wanted.ImagesLeftOut = nil, "", true
	}
	return wanted
}

// Applied returns what was applied whole last, nil where that is not known.
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

// RunningVersion returns the version that was applied last, and the one that is asked for while none is known to be
// applied.
func (m *Manifest) RunningVersion() string {
	if applied := m.Applied(); applied != nil {
		return applied.Version
	}
	return m.Spec.Version
}
