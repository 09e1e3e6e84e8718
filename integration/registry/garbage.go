package registry

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

// CollectGarbage runs `registry garbage-collect`. If untagged is true, it also deletes untagged manifests. Clients
// must not write at the same time.
func (r *Registry) CollectGarbage(ctx context.Context, untagged bool) error {
	files := filesystem.New(filesystem.DriverParameters{RootDirectory: filepath.Join(r.dir, "data"), MaxThreads: 100})
	namespace, err := storage.NewRegistry(ctx, files, storage.EnableDelete)
	if err != nil {
		return err
	}
	return storage.MarkAndSweep(ctx, files, namespace, storage.GCOpts{RemoveUntagged: untagged, Quiet: true})
}

// Blobs counts the blobs and manifests of all repositories.
func (r *Registry) Blobs() (blobs int, err error) {
	root := filepath.Join(r.dir, "data", "docker", "registry", "v2", "blobs")
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "/data") {
			blobs++
		}
		return err
	})
	return blobs, err
}
