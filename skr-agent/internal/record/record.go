// Package record keeps the agent's memory of its own work on one Manifest: the applied version, recreated objects,
// completed Jobs, inherited objects, and the progress of a removal, a restore or a return to lifecycle-manager. One
// annotation of the Manifest contains the whole memory, signed with the agent's key.
//
// The signature covers the Manifest's namespace and name. A record that is absent, unreadable or too large means that
// the agent does not know its earlier work, so it removes no module because of it. From a record without a valid
// signature, for example after the agent got a new key, the agent reads only the parts that restrict the agent:
//
//   - the applied version, for reports and for the dry run before an upgrade. The agent does not correct drift of it.
//   - recreated objects and completed Jobs, which the agent neither deletes nor creates again.
//   - the pause until a restore is complete, and the return to lifecycle-manager, which keeps the objects.
//
// It ignores the removal, which would delete objects, and the inherited objects, which extend the right to delete.
// A bundle that still requests them makes the agent record them again.
//
// A client with write access to Manifests can restore an earlier record of the same Manifest. The removal contains the
// Manifest's UID, so it has no effect on a restored Manifest.
package record

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Record is the agent's memory of its own work on one Manifest.
type Record struct {
	// Applied is the version that was last applied completely. Nil if it is unknown.
	Applied *AppliedVersion `json:"applied,omitempty"`
	// Recreated contains the last version that the agent installed by deleting objects and creating them again, and these
	// objects. The agent does not delete other objects for this version.
	Recreated *Recreated `json:"recreated,omitempty"`
	// CompletedJobs contains the Jobs of a version that completed and were then deleted, and the Pods that completed. The
	// agent does not create them again for this version.
	CompletedJobs *CompletedJobs `json:"completedJobs,omitempty"`
	// Inherited is the digest of the list of objects that the module inherited from lifecycle-manager. These objects
	// are in the Manifest's inventory, and the agent accepts lifecycle-manager's ownership annotations on them.
	Inherited string `json:"inherited,omitempty"`
	// Removal is the UID of the Manifest if the agent removes its module because of a bundle. If a Manifest without
	// this value is deleted, its module stays installed and the agent restores the Manifest.
	Removal types.UID `json:"removal,omitempty"`
	// Unmanaged is true if Removal is set because the module becomes unmanaged. The agent then keeps its objects.
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
	// Objects contains the UIDs of the deleted objects.
	Objects []types.UID `json:"objects"`
}

// CompletedJobs describes the completed Jobs and Pods of a version, and the started Jobs that Kubernetes deletes after
// their completion.
type CompletedJobs struct {
	// Version is the digest of the version.
	Version string `json:"version"`
	// Jobs contains the Jobs as NAMESPACE/NAME.
	Jobs []string `json:"jobs"`
	// Pods contains the Pods without a controller as NAMESPACE/NAME.
	Pods []string `json:"pods,omitempty"`
	// Started contains the applied Jobs with a TTL that are not in Jobs, as NAMESPACE/NAME. It is complete until the
	// version is applied completely.
	Started []string `json:"started,omitempty"`
}

// signedRecord is the JSON in the annotation: a record and its signature.
type signedRecord struct {
	// Signature is the signature of the record and the revision by the agent's key, in base64.
	Signature string `json:"signature,omitempty"`
	// Revision increases with each change of the record.
	Revision int64 `json:"revision,omitempty"`
	// Record is the JSON of a value of the type Record.
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

// Store reads and writes the records of Manifests. Without a Signer, no record has a valid signature.
type Store struct {
	Signer trust.Signer
	// Revisions detects earlier records that another client restored. If nil, Store accepts them.
	Revisions *Revisions
}

// Read returns the record of a Manifest. Without a valid signature, or if the record is an earlier one, the record
// contains only the parts that restrict the agent.
func (b Store) Read(m *v1beta2.Manifest) Record {
	text := m.Annotations[v1beta2.AnnotationRecord]
	if text == "" {
		r := b.readFormer(m)
		if !b.Revisions.accept(m, 0) {
			return r.restrictiveParts()
		}
		return r
	}
	r, parts, ok := parse(text)
	if !ok {
		return Record{}
	}
	if !b.isValid(m, parts) || !b.Revisions.accept(m, parts.Revision) {
		return r.restrictiveParts()
	}
	return r
}

// IsEarlier reports whether another client restored an earlier record of a Manifest, or deleted the record.
func (b Store) IsEarlier(m *v1beta2.Manifest) bool {
	text := m.Annotations[v1beta2.AnnotationRecord]
	if text == "" {
		return !b.Revisions.accept(m, 0)
	}
	_, parts, ok := parse(text)
	return ok && b.isValid(m, parts) && !b.Revisions.accept(m, parts.Revision)
}

func (b Store) isValid(m *v1beta2.Manifest, parts signedRecord) bool {
	return b.verify(signaturePrefix, m, revisionText(parts.Revision)+string(parts.Record), parts.Signature)
}

// ReadUnverified returns the record of a Manifest without a check of its signature. It is intended for reports, and for
// decisions that also require a verified bundle.
func ReadUnverified(m *v1beta2.Manifest) Record {
	text := m.Annotations[v1beta2.AnnotationRecord]
	if text == "" {
		return readFormerUnverified(m)
	}
	r, _, _ := parse(text)
	return r
}

// HasRemoval reports whether the record contains a removal of the Manifest, because a bundle removes the module or
// stops managing it. Most records contain no removal, and HasRemoval does not check their signatures.
func (b Store) HasRemoval(m *v1beta2.Manifest) bool {
	return HasUnverifiedRemoval(m) && b.Read(m).isRemovalOf(m)
}

// IsUnmanaged reports whether a bundle requests the deletion of the Manifest but keeps the module's objects. The signed
// record must contain the removal. Earlier agents did not record Unmanaged, so IsUnmanaged also accepts the unsigned
// annotation is-unmanaged instead of this field.
func (b Store) IsUnmanaged(m *v1beta2.Manifest) bool {
	return b.HasRemoval(m) && (m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True || b.Read(m).Unmanaged)
}

// HasUnverifiedRemoval is like Store.HasRemoval, but does not check the record's signature.
func HasUnverifiedRemoval(m *v1beta2.Manifest) bool { return ReadUnverified(m).isRemovalOf(m) }

func (r Record) isRemovalOf(m *v1beta2.Manifest) bool {
	return r.Removal != "" && r.Removal == m.UID
}

// Set writes the record to the annotation of m, without a request to the API server. If the record did not change, it
// keeps the existing signature.
func (b Store) Set(m *v1beta2.Manifest, r Record) error {
	record, err := encode(r)
	if err != nil {
		return fmt.Errorf("record of Manifest %s/%s: %w", m.Namespace, m.Name, err)
	}
	dropFormer(m)
	last := b.Revisions.Of(m)
	if record == "{}" && last == 0 {
		delete(m.Annotations, v1beta2.AnnotationRecord)
		return nil
	}
	_, is, ok := parse(m.Annotations[v1beta2.AnnotationRecord])
	isValid := ok && b.isValid(m, is)
	if ok && string(is.Record) == record && is.Revision >= last && (b.Signer == nil || isValid) {
		return nil
	}
	if isValid {
		last = max(last, is.Revision)
	}
	signature, err := b.sign(m, revisionText(last+1)+record)
	if err != nil {
		return fmt.Errorf("sign the record of Manifest %s/%s: %w", m.Namespace, m.Name, err)
	}
	text, err := json.Marshal(signedRecord{Signature: signature, Revision: last + 1, Record: json.RawMessage(record)})
	if err != nil {
		return fmt.Errorf("record of Manifest %s/%s: %w", m.Namespace, m.Name, err)
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[v1beta2.AnnotationRecord] = string(text)
	return nil
}

// encode returns the JSON of a record. A record that is too long omits the image lists of the applied version.
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

func (b Store) sign(m *v1beta2.Manifest, text string) (string, error) {
	if b.Signer == nil {
		return "", nil
	}
	signature, err := b.Signer.SignMessage(strings.NewReader(signedText(signaturePrefix, m, text)))
	return base64.StdEncoding.EncodeToString(signature), err
}

func (b Store) verify(prefix string, m *v1beta2.Manifest, text, signature string) bool {
	if b.Signer == nil || signature == "" {
		return false
	}
	key, err := b.Signer.PublicKey()
	if err != nil {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && trust.CheckSignature(key, []byte(signedText(prefix, m, text)), decoded)
}

// revisionText returns the part of the signed text that contains the revision.
func revisionText(number int64) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("revision %d\n", number)
}

func signedText(prefix string, m *v1beta2.Manifest, text string) string {
	return prefix + m.Namespace + "/" + m.Name + "\n" + text
}
