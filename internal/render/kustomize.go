package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// kustomizing serializes builds, because kyaml stores schemas in package variables.
var kustomizing sync.Mutex

// overlaid builds a kustomization and returns its objects in the order of kustomize build.
func overlaid(in Input) ([]placed, error) {
	found, err := overlay(in)
	if err != nil {
		return nil, in.named(err)
	}
	return found, nil
}

func overlay(in Input) ([]placed, error) {
	data, err := decompress(in.Content)
	if err != nil {
		return nil, err
	}
	members, err := new(budget).untar(data, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	files := make(tree, len(members))
	for _, m := range members {
		if isPlainPath(m.name) {
			files[m.name] = m.data
		}
	}
	root, err := files.root(in.Path)
	if err != nil {
		return nil, err
	}
	if err := (&inspection{files: files, builds: map[string]int{}}).kustomization(root); err != nil {
		return nil, err
	}
	text, err := build(files, root)
	if err != nil {
		return nil, err
	}
	return documents(file{"output", text})
}

// build runs kustomize on files in memory. Callers must inspect the files first (see inspection).
func build(files tree, root string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for name, data := range files {
		if err := disk.WriteFile("/"+name, data); err != nil {
			return nil, err
		}
	}
	kustomizing.Lock()
	defer kustomizing.Unlock()
	// The default options disable plugins, refuse files outside of a kustomization's folder, and preserve the order of
	// objects.
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, path.Join("/", root))
	if err != nil {
		return nil, fmt.Errorf("%s", shortened(err.Error()))
	}
	if built.Size() > MaxObjects {
		return nil, fmt.Errorf("the kustomization renders to more than %d objects", MaxObjects)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("%s", shortened(err.Error()))
	}
	if len(text) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("the kustomization renders to more than %d bytes", bundle.MaxLayerBytes)
	}
	return text, nil
}

var plainPath = regexp.MustCompile(`^[a-zA-Z0-9._/-]+$`)

// isPlainPath reports whether kustomize's in-memory file system supports a path. Files with other paths are ignored.
func isPlainPath(name string) bool {
	return plainPath.MatchString(name) && !strings.Contains(path.Clean(name), "..")
}

// tree maps paths to the files of an overlay.
type tree map[string][]byte

// root returns the folder of the kustomization to build. asked is the requested folder, or empty for the top level.
func (t tree) root(asked string) (string, error) {
	folder := path.Clean("./" + asked)
	if asked != "" && (path.IsAbs(asked) || strings.HasPrefix(folder, "..")) {
		return "", fmt.Errorf("path %q is outside of the content: use a folder inside the content", asked)
	}
	if _, err := t.kustomizationIn(folder); err == nil {
		return folder, nil
	} else if !errors.Is(err, errNone) {
		return "", err
	}
	var candidates []string
	for name := range t {
		if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
			candidates = append(candidates, path.Dir(name))
		}
	}
	if len(candidates) == 0 {
		return "", errors.New("content has no kustomization.yaml")
	}
	slices.Sort(candidates)
	if len(candidates) > 5 {
		candidates = append(candidates[:5], "more")
	}
	if folder == "." {
		folder = "the top level of the content"
	}
	return "", fmt.Errorf("no kustomization.yaml at %s, only in %s", folder, strings.Join(candidates, ", "))
}

var errNone = errors.New("no kustomization.yaml")

func (t tree) kustomizationIn(folder string) (string, error) {
	var found []string
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if _, ok := t[path.Join(folder, name)]; ok {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: %w", folder, errNone)
	case 1:
		return path.Join(folder, found[0]), nil
	}
	return "", fmt.Errorf("%s contains %s: keep one of these files", folder, strings.Join(found, ", "))
}

func (t tree) isFolder(name string) bool {
	if name == "." {
		return true
	}
	for other := range t {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}
