package component

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// descriptorsPath is where component versions live below a registry's path, by the OCM specification.
const descriptorsPath = "component-descriptors/"

// Source is a place with OCM component versions: a registry or a folder.
type Source interface {
	// Open gives the OCI repository of a component.
	Open(component string) (oras.ReadOnlyTarget, error)
	// Repository is that repository's full name when runtimes can read from it, else empty: the content must be copied.
	Repository(component string) string
	String() string
}

// Registry is a path in a registry with component-descriptors below it.
type Registry struct {
	Registries *bundle.Registries
	Prefix     string
}

// Open gives the component's repository.
func (r Registry) Open(component string) (oras.ReadOnlyTarget, error) {
	return r.Registries.Repository(r.Repository(component))
}

// Repository is the component's repository with its host.
func (r Registry) Repository(component string) string {
	return strings.Trim(r.Prefix, "/") + "/" + descriptorsPath + component
}

func (r Registry) String() string { return r.Prefix }

// Folder is a common transport archive as a folder.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md.
type Folder struct {
	dir   string
	index map[string]digest.Digest // "repository:tag" → manifest
}

const (
	indexFile     = "artifact-index.json"
	maxIndexBytes = 4 << 20 // some ten thousand component versions
)

// OpenFolder reads the index of a common transport archive.
func OpenFolder(dir string) (Folder, error) {
	data, err := readBounded(dir, indexFile, maxIndexBytes)
	if err != nil {
		return Folder{}, fmt.Errorf("common transport archive %s: %w", dir, err)
	}
	index, err := decodeIndex(data)
	if err != nil {
		return Folder{}, fmt.Errorf("common transport archive %s: %s: %w", dir, indexFile, err)
	}
	return Folder{dir: dir, index: index}, nil
}

func decodeIndex(data []byte) (map[string]digest.Digest, error) {
	var index struct {
		SchemaVersion int `json:"schemaVersion"`
		Artifacts     []struct {
			Repository string        `json:"repository"`
			Tag        string        `json:"tag"`
			Digest     digest.Digest `json:"digest"`
		} `json:"artifacts"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	if index.SchemaVersion != 1 {
		return nil, fmt.Errorf("schemaVersion: %d is not supported, want 1", index.SchemaVersion)
	}
	found := map[string]digest.Digest{}
	for i, artifact := range index.Artifacts {
		if err := artifact.Digest.Validate(); err != nil {
			return nil, fmt.Errorf("artifacts[%d].digest: %w", i, err)
		}
		if artifact.Tag == "" { // an older version of what has the tag now
			continue
		}
		name := artifact.Repository + ":" + artifact.Tag
		if other, twice := found[name]; twice && other != artifact.Digest {
			return nil, fmt.Errorf("artifacts[%d]: %s is both %s and %s", i, name, other, artifact.Digest)
		}
		found[name] = artifact.Digest
	}
	return found, nil
}

// Open gives the component's repository.
func (f Folder) Open(component string) (oras.ReadOnlyTarget, error) {
	return folderRepository{Folder: f, name: descriptorsPath + component}, nil
}

// Repository is empty: no runtime reads this folder.
func (f Folder) Repository(string) string { return "" }

func (f Folder) String() string { return f.dir }

// folderRepository reads one repository of a Folder.
type folderRepository struct {
	Folder
	name string
}

func (f folderRepository) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	d, ok := f.index[f.name+":"+reference]
	if !ok {
		return ocispec.Descriptor{}, fmt.Errorf("%s:%s in %s: %w", f.name, reference, f.dir, errdef.ErrNotFound)
	}
	data, err := readBounded(f.dir, blobPath(d), bundle.MaxManifestBytes)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(data))}, nil
}

func (f folderRepository) Fetch(_ context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	if err := target.Digest.Validate(); err != nil {
		return nil, err
	}
	data, err := readBounded(f.dir, blobPath(target.Digest), bundle.MaxLayerBytes)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (f folderRepository) Exists(_ context.Context, target ocispec.Descriptor) (bool, error) {
	if err := target.Digest.Validate(); err != nil {
		return false, err
	}
	file, err := os.OpenInRoot(f.dir, blobPath(target.Digest))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, file.Close()
}

// blobPath is a path of one file for a digest that was validated: its encoded part is hexadecimal.
func blobPath(d digest.Digest) string {
	return filepath.Join("blobs", d.Algorithm().String()+"."+d.Encoded())
}

// readBounded reads a file of the folder. Links that lead out of the folder are not followed: archives come from elsewhere.
func readBounded(dir, name string, limit int64) ([]byte, error) {
	file, err := os.OpenInRoot(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), errdef.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", filepath.Join(dir, name), limit)
	}
	return data, err
}
