package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
)

// folderReader reads one repository of an OCI layout in a folder. It reads only requested blobs, so it is not affected
// by damaged manifests in other repositories.
type folderReader struct {
	*oci.ReadOnlyStorage
	index *layoutIndex
	name  string
}

const maxMarkerBytes = 64 << 10

func checkReadable(dir string) error {
	data, _, err := readRegular(filepath.Join(dir, ocispec.ImageLayoutFile), maxMarkerBytes)
	if err != nil {
		return err
	}
	var marker ocispec.ImageLayout
	if err := json.Unmarshal(data, &marker); err != nil {
		return fmt.Errorf("%s: %w: the next command that writes into the folder repairs it", ocispec.ImageLayoutFile,
			err)
	}
	if marker.Version != ocispec.ImageLayoutVersion {
		return fmt.Errorf("%s: version %q, must be %s", ocispec.ImageLayoutFile, marker.Version,
			ocispec.ImageLayoutVersion)
	}
	_, err = os.Stat(filepath.Join(dir, ocispec.ImageIndexFile))
	return err
}

func (r folderReader) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	return r.index.blobs.has(d)
}

// Resolve returns the descriptor for a tag, or for a digest in index.json.
func (r folderReader) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	name := layoutReference(r.name, reference)
	d, found, err := r.index.resolve(name, reference)
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", name, errdef.ErrNotFound)
	}
	return d, err
}

func (r folderReader) Tags(_ context.Context, _ string, fn func(tags []string) error) error {
	all, err := r.index.manifests()
	if err != nil {
		return err
	}
	var own []string
	for _, d := range all {
		if tag, ok := strings.CutPrefix(d.Annotations[ocispec.AnnotationRefName], r.name+":"); ok {
			own = append(own, tag)
		}
	}
	return fn(own)
}

// layoutReference returns a tag's name in index.json, "<repository>:<tag>", because all repositories in a layout share
// one index. It returns a digest unchanged.
func layoutReference(repository, reference string) string {
	if strings.Contains(reference, ":") {
		return reference // reference is a digest
	}
	return repository + ":" + reference
}
