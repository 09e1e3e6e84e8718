package record

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Revisions contains the highest revision of each Manifest's record. Without it, a client with write access to a
// Manifest could restore an earlier record, such as a removal that a later bundle canceled. It is safe for concurrent
// use. A nil Revisions accepts every revision.
type Revisions struct {
	mu      sync.Mutex // guards highest
	highest map[types.NamespacedName]revision
}

// revision is a revision of a record. version is the resource version of the Manifest that contained the revision, or
// empty if it is unknown. A Manifest with an older resource version can have an older record, because caches are
// delayed.
type revision struct {
	number  int64
	version string
}

// NewRevisions returns a Revisions without records.
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

// Restore adds a revision that an earlier process of the agent knew.
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
