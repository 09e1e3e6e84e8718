package archive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
	kjson "sigs.k8s.io/json"
)

// Version is an entry in an archive's index.
type Version struct {
	// Repository is the relative name of the repository, such as "component-descriptors/kyma-project.io/module/keda".
	Repository string `json:"repository"`
	// Tag is empty for a manifest in an image index, and for a manifest whose tag was moved to another manifest.
	Tag    string        `json:"tag,omitempty"`
	Digest digest.Digest `json:"digest"`
	// MediaType is empty if the program that wrote the index did not record it.
	MediaType string `json:"mediaType,omitempty"`
}

// document is the JSON format of artifact-index.json. The official ocm tools refuse unknown fields.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md; open-component-model, bindings/go/ctf/index/v1.
type document struct {
	SchemaVersion int       `json:"schemaVersion"`
	Artifacts     []Version `json:"artifacts"`
}

type index struct {
	mu      sync.RWMutex // guards entries
	entries []Version
}

func decodeIndex(data []byte) (*index, error) {
	var d document
	doubts, err := kjson.UnmarshalStrict(data, &d, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(doubts, err)...); err != nil {
		return nil, err
	}
	if d.SchemaVersion != 1 {
		return nil, fmt.Errorf("schemaVersion %d is not supported, must be 1", d.SchemaVersion)
	}
	tagged := map[[2]string]digest.Digest{}
	for i, v := range d.Artifacts {
		if _, err := blobName(v.Digest); err != nil {
			return nil, fmt.Errorf("artifacts[%d].digest: %w", i, err)
		}
		if err := checkRepository(v.Repository); err != nil {
			return nil, fmt.Errorf("artifacts[%d].repository: %w", i, err)
		}
		if v.Tag == "" {
			continue
		}
		if err := checkTag(v.Tag); err != nil {
			return nil, fmt.Errorf("artifacts[%d].tag: %w", i, err)
		}
		name := [2]string{v.Repository, v.Tag}
		if other, twice := tagged[name]; twice && other != v.Digest {
			return nil, fmt.Errorf("artifacts[%d]: %s:%s has two digests, %s and %s", i, v.Repository, v.Tag, other,
				v.Digest)
		}
		tagged[name] = v.Digest
	}
	return &index{entries: d.Artifacts}, nil
}

func checkRepository(name string) error {
	if err := (registry.Reference{Registry: "archive", Repository: name}).ValidateRepository(); err != nil ||
		len(name) > 255 {
		return fmt.Errorf("%q is not a valid repository name", name)
	}
	return nil
}

func checkTag(tag string) error {
	if err := (registry.Reference{Reference: tag}).ValidateReferenceAsTag(); err != nil {
		return fmt.Errorf("%q is not a valid tag", tag)
	}
	return nil
}

// encode returns the index as JSON. Equal entries produce equal bytes.
func (x *index) encode() ([]byte, error) {
	return json.Marshal(document{SchemaVersion: 1, Artifacts: x.versions()})
}

// versions returns the entries, sorted by repository and tag. Entries without a tag come last in their repository.
func (x *index) versions() []Version {
	x.mu.RLock()
	defer x.mu.RUnlock()
	sorted := append([]Version{}, x.entries...)
	slices.SortFunc(sorted, func(a, b Version) int {
		byTag := strings.Compare(a.Tag, b.Tag)
		if (a.Tag == "") != (b.Tag == "") {
			byTag = -byTag
		}
		return cmp.Or(strings.Compare(a.Repository, b.Repository), byTag,
			strings.Compare(a.Digest.String(), b.Digest.String()), strings.Compare(a.MediaType, b.MediaType))
	})
	return slices.Compact(sorted)
}

func (x *index) find(repository, reference string) (Version, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i := x.findPosition(func(v Version) bool {
		return v.Repository == repository && reference != "" && (v.Tag == reference || v.Digest.String() == reference)
	})
	if i < 0 {
		return Version{}, false
	}
	return x.entries[i], true
}

// findPosition returns the position of the first entry that matches, or -1. The caller must hold mu.
func (x *index) findPosition(matches func(Version) bool) int {
	return slices.IndexFunc(x.entries, matches)
}

// add adds an entry. If another manifest has the entry's tag, add moves the tag, as the official tools do. The other
// manifest stays in the index without a tag.
func (x *index) add(v Version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	same := func(e Version) bool { return e.Repository == v.Repository && e.Digest == v.Digest }
	if v.Tag == "" {
		if x.findPosition(same) < 0 {
			x.entries = append(x.entries, v)
		}
		return
	}
	if had := x.findPosition(func(e Version) bool { return e.Repository == v.Repository && e.Tag == v.Tag }); had >= 0 {
		if x.entries[had].Digest == v.Digest {
			x.entries[had].MediaType = v.MediaType
			return
		}
		old := x.entries[had]
		x.entries = slices.Delete(x.entries, had, had+1)
		if x.findPosition(func(e Version) bool { return e.Repository == old.Repository && e.Digest == old.Digest }) < 0 {
			old.Tag = ""
			x.entries = append(x.entries, old)
		}
	}
	if free := x.findPosition(func(e Version) bool { return same(e) && e.Tag == "" }); free >= 0 {
		x.entries[free] = v
		return
	}
	x.entries = append(x.entries, v)
}
