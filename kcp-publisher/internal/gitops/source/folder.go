// Package source reads a control plane's objects from YAML files in a folder or a commit. An invalid file makes the
// whole read fail, because an incomplete catalog would look like an intended deletion.
package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Objects contains a folder's objects.
type Objects struct {
	Kymas     []v1beta2.Kyma
	Templates []v1beta2.ModuleTemplate
	Metas     []v1beta2.ModuleReleaseMeta
	Watchers  []v1beta2.Watcher
	Policies  []fleet.RolloutPolicy
	Trains    []fleet.PromotionPolicy
	// Secrets contains the Secrets with public keys for verifying component signatures.
	Secrets []corev1.Secret
	// Written contains all objects without defaults.
	Written []Written
	// Components contains the paths of common transport archives.
	Components []string
}

// Written is an object as written in its file.
type Written struct {
	Object unstructured.Unstructured
	// Place is the file and line for messages.
	Place string
	// File is the path inside the source. Line is the object's first line.
	File string
	Line int
}

// archiveIndex and archiveBlobs are the names of the index file and the blob folder in a common transport archive.
//
// Source: OCM specification, common transport format, directory representation.
const archiveIndex, archiveBlobs = "artifact-index.json", "blobs"

// Folder reads every .yaml, .yml and .json file below dir, except hidden files and files in common transport archives.
func Folder(dir string) (Objects, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return Objects{}, fmt.Errorf("%s is a file: use a folder, from which all YAML and JSON files are read", dir)
	}
	objects, err := Files(os.DirFS(dir), dir)
	for i, name := range objects.Components {
		objects.Components[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return objects, err
}

// Files reads the same files as Folder from a file system. root is the path of the file system's root in messages.
func Files(files fs.FS, root string) (Objects, error) {
	var objects Objects
	var problems []error
	seen := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := fs.Stat(files, path.Join(name, archiveIndex)); err == nil {
				objects.Components = append(objects.Components, name)
				problems = append(problems, checkHidden(files, name, root))
				return fs.SkipDir
			}
			if isHidden(entry) {
				return fs.SkipDir
			}
			return nil
		}
		if isHidden(entry) {
			return nil
		}
		if slices.Contains([]string{".tar", ".tgz"}, path.Ext(name)) || strings.HasSuffix(name, ".tar.gz") {
			objects.Components = append(objects.Components, name)
			return nil
		}
		if isLinkedFolder(files, name, entry) {
			const message = "%s is a symbolic link to a folder, which is not followed: replace the link with the " +
				"files, or move it out of the folder"
			problems = append(problems, fmt.Errorf(message, filepath.Join(root, filepath.FromSlash(name))))
			return nil
		}
		if isObjectFile(name) {
			problems = append(problems,
				objects.addFile(files, name, filepath.Join(root, filepath.FromSlash(name)), seen))
		}
		return nil
	})
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) && at.Path == "." {
			err = at.Err // the error already contains the folder's path
		}
		return Objects{}, fmt.Errorf("read folder %s: %w", root, err)
	}
	return objects, errors.Join(problems...)
}

// checkHidden returns an error if the folder of an archive contains other YAML or JSON files. Folder does not read
// archive folders. Without this check, adding an archive's index file to a folder would hide all of its objects, which
// would then look deleted.
func checkHidden(files fs.FS, archive, root string) error {
	return fs.WalkDir(files, archive, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && name == path.Join(archive, archiveBlobs):
			return fs.SkipDir
		case err != nil || entry.IsDir() || isHidden(entry) || !isObjectFile(name):
			return err
		case name == path.Join(archive, archiveIndex):
			return nil
		}
		const message = "%s is ignored, because its folder is an archive (it contains %s): move the file or the archive"
		return fmt.Errorf(message, filepath.Join(root, filepath.FromSlash(name)), archiveIndex)
	})
}

// isHidden reports whether a file or folder has a hidden name. Hidden files configure other programs, for example CI.
// A mounted ConfigMap contains hidden links to folders.
func isHidden(entry fs.DirEntry) bool {
	return entry.Name() != "." && strings.HasPrefix(entry.Name(), ".")
}

func isLinkedFolder(files fs.FS, name string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := fs.Stat(files, name)
	return err == nil && info.IsDir()
}

// isObjectFile reports whether a file can contain objects, based on its name.
func isObjectFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
