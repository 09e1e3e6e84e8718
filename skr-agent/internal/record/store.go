package record

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Store reads and writes Manifests' records. Without a Signer, no record has a valid signature.
type Store struct {
	Signer trust.Signer
	// Revisions detects earlier records that another client restored. If nil, Store accepts them.
	Revisions *Revisions
}

// Read returns a Manifest's record. If the record has no valid signature, or if another client restored an earlier
// record, Read returns only the parts that restrict the agent.
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

// IsEarlier reports whether another client restored a Manifest's earlier record, or deleted the record.
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

// HasRemoval reports whether the record contains the Manifest's removal, because a bundle removes the module or stops
// managing it. Most records contain no removal, and HasRemoval does not check their signatures.
func (b Store) HasRemoval(m *v1beta2.Manifest) bool {
	return HasUnverifiedRemoval(m) && b.Read(m).isRemovalOf(m)
}

// IsUnmanaged reports whether a bundle requests that the Manifest is deleted but keeps the module's objects. The signed
// record must contain the removal. Earlier agents did not record Unmanaged, so IsUnmanaged also accepts the unsigned
// annotation is-unmanaged instead of this field.
func (b Store) IsUnmanaged(m *v1beta2.Manifest) bool {
	return b.HasRemoval(m) && (m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True || b.Read(m).Unmanaged)
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

// maxUpdates limits Update's attempts. Each attempt after the first reads the Manifest again, because the previous copy
// was outdated.
const maxUpdates = 4

// Update changes a Manifest's record in the cluster and in m, with one request. It sends no request if the record stays
// the same. Several parts of the agent write records, so m can be outdated. Writing an outdated copy fails. Update then
// reads the Manifest again through the reader `uncached` and retries. If `uncached` is nil, it returns the conflict.
func (b Store) Update(
	ctx context.Context, c client.Client, uncached client.Reader, m *v1beta2.Manifest, change func(*Record),
	options ...client.PatchOption,
) error {
	for attempt := 1; ; attempt++ {
		next, r := m.DeepCopy(), b.Read(m)
		change(&r)
		if err := b.Set(next, r); err != nil {
			return err
		}
		if maps.Equal(next.Annotations, m.Annotations) {
			return nil
		}
		err := c.Patch(ctx, next, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), options...)
		if err == nil {
			next.DeepCopyInto(m)
			b.Read(m) // adds the revision to b.Revisions
			return nil
		}
		if !apierrors.IsConflict(err) || uncached == nil || attempt == maxUpdates {
			return err
		}
		current := &v1beta2.Manifest{}
		if err := uncached.Get(ctx, client.ObjectKeyFromObject(m), current); err != nil {
			return err
		}
		current.DeepCopyInto(m)
	}
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

// Revisions contains the highest revision of each Manifest's record. Without it, a client with write access to a
// Manifest could restore an earlier record, such as a removal that a later bundle canceled. It is safe for concurrent
// use. A nil Revisions accepts every revision.
type Revisions struct {
	mu      sync.Mutex // guards highest
	highest map[types.NamespacedName]revision
}

// revision is a revision of a record. version is the resource version of the Manifest that contained the revision, or
// empty if it is unknown. A cached Manifest with an older resource version can have an older record, because caches are
// delayed.
type revision struct {
	number  int64
	version string
}

// NewRevisions returns empty Revisions.
func NewRevisions() *Revisions { return &Revisions{highest: map[types.NamespacedName]revision{}} }

func keyOf(m *v1beta2.Manifest) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}

// Of returns the highest known revision of a Manifest's record, or 0.
func (r *Revisions) Of(m *v1beta2.Manifest) int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.highest[keyOf(m)].number
}

// Restore adds a revision that an earlier agent process knew.
func (r *Revisions) Restore(m *v1beta2.Manifest, number int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > r.highest[keyOf(m)].number {
		r.highest[keyOf(m)] = revision{number: number}
	}
}

// accept adds the revision in a Manifest from the API server. It returns false if the record is older than a record
// that the Manifest must contain. A Manifest without a record has revision 0.
func (r *Revisions) accept(m *v1beta2.Manifest, number int64) bool {
	if r == nil || m.ResourceVersion == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.highest[keyOf(m)]
	switch {
	case number > known.number:
		r.highest[keyOf(m)] = revision{number, m.ResourceVersion}
		return true
	case number == known.number:
		return true
	case known.version == "":
		return false
	}
	order, err := resourceversion.CompareResourceVersion(m.ResourceVersion, known.version)
	return err != nil || order < 0
}
