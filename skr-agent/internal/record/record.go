// Package record keeps the agent's memory of its own work on one Manifest: the applied version, recreated objects,
// completed Jobs, inherited objects, and the progress when a module is removed, restored or returned to
// lifecycle-manager. One annotation on the Manifest contains the whole memory, signed with the agent's key.
//
// The signature covers the Manifest's namespace and name. If a record is absent, unreadable or too large, the agent
// does not know its earlier work, and does not remove the module. From a record without a valid signature, for example
// after the agent got a new key, the agent reads only the parts that restrict the agent:
//
//   - the applied version, for reports and for the dry run before an upgrade. The agent does not correct its drift.
//   - recreated objects and completed Jobs, which the agent neither deletes nor creates again.
//   - the pause until a restore is complete, and the return to lifecycle-manager, which keeps the objects.
//
// It ignores the removal, which would delete objects, and the inherited objects, which the agent would then be allowed
// to delete. If a bundle still requests them, the agent records them again.
//
// A client with write access to Manifests can restore an earlier record on the same Manifest. The removal contains the
// Manifest's UID, so it has no effect on a restored Manifest.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Record is the agent's memory of its own work on one Manifest.
type Record struct {
	// Applied is the version that was last applied completely. It is nil if it is unknown.
	Applied *AppliedVersion `json:"applied,omitempty"`
	// Recreated identifies the last version that required the agent to delete objects and create them again. It lists
	// these objects. The agent does not delete other objects for this version.
	Recreated *Recreated `json:"recreated,omitempty"`
	// CompletedJobs contains a version's Jobs that completed and were then deleted, and the Pods that completed. The
	// agent does not create them again for this version.
	CompletedJobs *CompletedJobs `json:"completedJobs,omitempty"`
	// Inherited is a digest of the objects that the module inherited from lifecycle-manager. These objects are in the
	// Manifest's inventory, and the agent accepts lifecycle-manager's ownership annotations on them.
	Inherited string `json:"inherited,omitempty"`
	// Removal is the Manifest's UID if a bundle requests the removal of the Manifest's module. If a Manifest without
	// this value is deleted, its module stays installed and the agent restores the Manifest.
	Removal types.UID `json:"removal,omitempty"`
	// Unmanaged is true if Removal is set because the module becomes unmanaged. The agent then keeps the module's
	// objects.
	Unmanaged bool `json:"unmanaged,omitempty"`
	// Restoring is true on a restored Manifest until its inventory is complete again. The installer waits until then.
	Restoring bool `json:"restoring,omitempty"`
	// Released is true if the agent returns the module to lifecycle-manager. Lifecycle-manager's field manager then
	// becomes the owner of the agent's fields.
	Released bool `json:"released,omitempty"`
}

// Recreated describes the objects that the agent deletes and creates again to install a version.
type Recreated struct {
	// Version identifies the version.
	Version string `json:"version"`
	// Objects contains the deleted objects' UIDs.
	Objects []types.UID `json:"objects"`
}

// CompletedJobs describes a version's completed Jobs and Pods, and the started Jobs that Kubernetes deletes after their
// completion.
type CompletedJobs struct {
	// Version is the digest of the version.
	Version string `json:"version"`
	// Jobs contains the Jobs as NAMESPACE/NAME.
	Jobs []string `json:"jobs"`
	// Pods contains the Pods without a controller as NAMESPACE/NAME.
	Pods []string `json:"pods,omitempty"`
	// Started contains the applied Jobs with a TTL that are not in Jobs, as NAMESPACE/NAME. The agent stops adding Jobs
	// after it has applied the version completely.
	Started []string `json:"started,omitempty"`
}

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
	// version without its images again, so it does not correct the version's drift while a different version cannot be
	// applied.
	ImagesOmitted bool `json:"imagesLeftOut,omitempty"`
	// InProgress is the Digest of a different version that the agent has started to apply. From then on, the agent does
	// not correct drift from the applied version.
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

// signedRecord is the JSON in the annotation: a record and its signature.
type signedRecord struct {
	// Signature is the signature of the record and the revision, in base64. It is made with the agent's key.
	Signature string `json:"signature,omitempty"`
	// Revision increases with each change to the record.
	Revision int64 `json:"revision,omitempty"`
	// Record is the JSON for a value of type Record.
	Record json.RawMessage `json:"record"`
}

const (
	// maxRecordBytes is the maximum size of a record. Kubernetes limits all annotations of an object together to 256
	// KiB.
	maxRecordBytes = 128 << 10
	// maxTextBytes is the maximum size of the annotation, which contains the record and its signature.
	maxTextBytes = maxRecordBytes + 1<<10
	// signaturePrefix is the prefix of the signed text. The prefix ensures that a signature for another purpose is not
	// valid for a record, although it is made with the same key.
	signaturePrefix = "kyma-pull manifest record v1\n"
)

// ReadUnverified returns a Manifest's record without checking its signature. It is intended for reports, and for
// decisions that also require a verified bundle.
func ReadUnverified(m *v1beta2.Manifest) Record {
	text := m.Annotations[v1beta2.AnnotationRecord]
	if text == "" {
		return readFormerUnverified(m)
	}
	r, _, _ := parse(text)
	return r
}

// HasUnverifiedRemoval is like Store.HasRemoval, but does not check the record's signature.
func HasUnverifiedRemoval(m *v1beta2.Manifest) bool { return ReadUnverified(m).isRemovalOf(m) }

func (r Record) isRemovalOf(m *v1beta2.Manifest) bool {
	return r.Removal != "" && r.Removal == m.UID
}

// encode returns a record as JSON. A record that is too long omits the image lists of the applied version.
func encode(r Record) (string, error) {
	text, err := json.Marshal(r)
	if err == nil && len(text) > maxRecordBytes && r.Applied != nil {
		applied := r.Applied.withoutImages()
		r.Applied = &applied
		text, err = json.Marshal(r)
	}
	if err != nil {
		return "", err
	}
	if len(text) > maxRecordBytes {
		return "", fmt.Errorf("%d bytes, must be at most %d", len(text), maxRecordBytes)
	}
	return string(text), nil
}

// parse returns the record in the value of an annotation. It returns false if the value is not a record.
func parse(text string) (Record, signedRecord, bool) {
	var parts signedRecord
	if len(text) > maxTextBytes || json.Unmarshal([]byte(text), &parts) != nil {
		return Record{}, signedRecord{}, false
	}
	var r Record
	if json.Unmarshal(parts.Record, &r) != nil {
		return Record{}, signedRecord{}, false
	}
	return r, parts, true
}

// restrictiveParts returns the parts of an unsigned record that restrict the agent.
func (r Record) restrictiveParts() Record {
	r.Removal, r.Unmanaged, r.Inherited = "", false, ""
	if r.Applied != nil {
		applied := *r.Applied
		applied.Unconfirmed = true
		r.Applied = &applied
	}
	return r
}
