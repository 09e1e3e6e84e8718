// Package source reads what a control plane offers from files: a folder of YAML, or that of a commit, goes in, Kymas,
// ModuleTemplates and ModuleReleaseMetas come out. A file that cannot be read as a whole stops everything, by name and
// line, because a catalog with a hole looks like a decision.
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

// Objects are what a folder holds.
type Objects struct {
	Kymas     []v1beta2.Kyma
	Templates []v1beta2.ModuleTemplate
	Metas     []v1beta2.ModuleReleaseMeta
	Watchers  []v1beta2.Watcher
	Policies  []fleet.RolloutPolicy
	Trains    []fleet.PromotionPolicy
	// Secrets are those with public keys that verify the signatures of components.
	Secrets []corev1.Secret
	// Written are all of these as they stand in the files, without any defaults.
	Written []Written
	// Components are the common transport archives below it: folders, and files that end in .tar, .tgz or .tar.gz.
	Components []string
}

// Written is an object as it stands in its file.
type Written struct {
	Object unstructured.Unstructured
	// Place is file and line.
	Place string
	// File is the path inside the source, Line where the object begins in it.
	File string
	Line int
}

const archiveIndex = "artifact-index.json"

// Folder reads every .yaml, .yml and .json file below dir. Common transport archives are not looked into.
func Folder(dir string) (Objects, error) {
	objects, err := Files(os.DirFS(dir), dir)
	for i, name := range objects.Components {
		objects.Components[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return objects, err
}

// Files reads the same from a file system; messages call it root. Components are paths inside it.
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
				return fs.SkipDir
			}
			if name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains([]string{".tar", ".tgz"}, path.Ext(name)) || strings.HasSuffix(name, ".tar.gz") {
			objects.Components = append(objects.Components, name)
			return nil
		}
		if isLinkedFolder(files, name, entry) {
			const message = "%s: is a symbolic link to a folder, which is not followed: put the files in its place, or move it out of the folder"
			problems = append(problems, fmt.Errorf(message, filepath.Join(root, filepath.FromSlash(name))))
			return nil
		}
		if IsObjectFile(name) {
			problems = append(problems, objects.addFile(files, name, filepath.Join(root, filepath.FromSlash(name)), seen))
		}
		return nil
	})
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) && at.Path == "." {
			err = at.Err // the folder itself, which has a name
		}
		return Objects{}, fmt.Errorf("read folder %s: %w", root, err)
	}
	return objects, errors.Join(problems...)
}

// isLinkedFolder reports whether a folder is not looked into that could hold objects. A mounted ConfigMap has hidden
// ones.
func isLinkedFolder(files fs.FS, name string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(entry.Name(), ".") {
		return false
	}
	info, err := fs.Stat(files, name)
	return err == nil && info.IsDir()
}

// IsObjectFile tells by its name whether a file is read for objects.
func IsObjectFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
