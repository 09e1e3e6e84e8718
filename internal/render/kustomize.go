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

// kustomizing is held while an overlay is built, because kyaml keeps its schemas in package variables.
var kustomizing sync.Mutex

// overlaid builds a kustomization like kustomize build, in the same order.
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

// build runs kustomize. After the inspection there is nothing left to fetch or run.
func build(files tree, root string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for name, data := range files {
		if err := disk.WriteFile("/"+name, data); err != nil {
			return nil, err
		}
	}
	kustomizing.Lock()
	defer kustomizing.Unlock()
	// The defaults are correct: no plugins, no files above a kustomization's own folder, original order.
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, path.Join("/", root))
	if err != nil {
		return nil, fmt.Errorf("%s", shortened(err.Error()))
	}
	if built.Size() > MaxObjects {
		return nil, fmt.Errorf("more than %d objects", MaxObjects)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("%s", shortened(err.Error()))
	}
	if len(text) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("returns more than %d bytes", bundle.MaxLayerBytes)
	}
	return text, nil
}

var plainPath = regexp.MustCompile(`^[a-zA-Z0-9._/-]+$`)

// isPlainPath reports whether kustomize's in-memory file system accepts a name. Other names are ignored until a
// kustomization refers to them.
func isPlainPath(name string) bool {
	return plainPath.MatchString(name) && !strings.Contains(path.Clean(name), "..")
}

// tree contains the files of an overlay by path. A folder is the part before a slash.
type tree map[string][]byte

// root returns the folder to build: the requested one, or the top.
func (t tree) root(asked string) (string, error) {
	folder := path.Clean("./" + asked)
	if asked != "" && (path.IsAbs(asked) || strings.HasPrefix(folder, "..")) {
		return "", fmt.Errorf("path %q leaves the content: use a folder inside it", asked)
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
		folder = "the top of the content"
	}
	return "", fmt.Errorf("no kustomization.yaml at %s, only in %s", folder, strings.Join(candidates, ", "))
}

var errNone = errors.New("no kustomization.yaml")

// kustomizationIn returns the name of a folder's kustomization file.
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
	return "", fmt.Errorf("%s: %s: keep one of them", folder, strings.Join(found, ", "))
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
