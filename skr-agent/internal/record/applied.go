package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// AppliedVersion is the module version that was last applied completely. While a newer version cannot be applied, the
// agent keeps this version running and corrects its drift.
type AppliedVersion struct {
	Version string              `json:"version"`
	Install v1beta2.InstallInfo `json:"install"`
	Config  *v1beta2.ImageSpec  `json:"config,omitempty"`
	// Digest is the digest of everything that the Manifest requested. It includes parts that the record omits: the
	// default CR, and image lists that are too long.
	Digest          string   `json:"digest,omitempty"`
	LocalizedImages []string `json:"localizedImages,omitempty"`
	// Images is the value of v1beta2.AnnotationImages when the version was applied.
	Images string `json:"images,omitempty"`
	// Values is the value of v1beta2.AnnotationValues when the version was applied.
	Values string `json:"values,omitempty"`
	// ImagesOmitted is true if LocalizedImages and Images were too long for the record. The agent cannot render a
	// version without its images again, so it does not correct the version's drift while another version cannot be
	// applied.
	ImagesOmitted bool `json:"imagesLeftOut,omitempty"`
	// InProgress is the Digest of another version that the agent has started to apply. From then on, the agent does not
	// correct drift of this version.
	InProgress string `json:"begun,omitempty"`
	// Unconfirmed is true if the version is from a record without the agent's signature. The agent reports such a
	// version, but does not correct its drift.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// maxAppliedBytes limits the applied version in a record.
const maxAppliedBytes = 64 << 10

// RequestedVersion returns the version that the Manifest requests, as an AppliedVersion.
func RequestedVersion(m *v1beta2.Manifest) AppliedVersion {
	wanted := AppliedVersion{
		Version: m.Spec.Version, Install: m.Spec.Install, Config: m.Spec.Config,
		LocalizedImages: m.Spec.LocalizedImages, Images: m.Annotations[v1beta2.AnnotationImages],
		Values: m.Annotations[v1beta2.AnnotationValues],
	}
	text, err := json.Marshal(struct {
		AppliedVersion
		Resource any
	}{wanted, m.Spec.Resource})
	if err != nil {
		return wanted // without a digest; such a version cannot be applied
	}
	sum := sha256.Sum256(text)
	wanted.Digest = "sha256:" + hex.EncodeToString(sum[:])
	if text, err := json.Marshal(wanted); err == nil && len(text) > maxAppliedBytes {
		return wanted.withoutImages()
	}
	return wanted
}

func (v AppliedVersion) withoutImages() AppliedVersion {
	v.LocalizedImages, v.Images, v.ImagesOmitted = nil, "", true
	return v
}

// RunningVersion returns the version that was last applied, or the requested version if no applied version is recorded.
// It does not check the record's signature.
func RunningVersion(m *v1beta2.Manifest) string {
	if applied := ReadUnverified(m).Applied; applied != nil {
		return applied.Version
	}
	return m.Spec.Version
}
