package render

import (
	"fmt"
	"path"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// kustomizeLock serializes builds, because kyaml stores schemas in package variables.
var kustomizeLock sync.Mutex

// renderOverlay builds a kustomization and returns its objects in the order of kustomize build.
func renderOverlay(in Input) ([]placedObject, error) {
	found, err := buildOverlay(in)
	if err != nil {
		return nil, in.wrapError(err)
	}
	return found, nil
}

func buildOverlay(in Input) ([]placedObject, error) {
	data, err := decompress(in.Content, MaxUnpackedBytes)
	if err != nil {
		return nil, err
	}
	members, err := newBudget(MaxUnpackedBytes).untar(data, func(string) bool { return true })
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
	var p parser
	err = p.documents(file{"output", text})
	return p.found, err
}

// build runs kustomize on files in memory. Callers must inspect the files first (see inspection).
func build(files tree, root string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for name, data := range files {
		if err := disk.WriteFile("/"+name, data); err != nil {
			return nil, err
		}
	}
	kustomizeLock.Lock()
	defer kustomizeLock.Unlock()
	// The default options disable plugins, refuse files outside a kustomization's folder, and preserve object order.
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, path.Join("/", root))
	if err != nil {
		return nil, fmt.Errorf("%s", shortenMessage(err.Error()))
	}
	if built.Size() > MaxObjects {
		return nil, fmt.Errorf("the kustomization renders to more than %d objects", MaxObjects)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("%s", shortenMessage(err.Error()))
	}
	if len(text) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("the kustomization renders to more than %d bytes", bundle.MaxLayerBytes)
	}
	return text, nil
}
