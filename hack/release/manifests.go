package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

// installations contains the values and namespaces for the kubectl manifests. Users must replace registry.example.
var installations = map[string]struct {
	namespace string
	values    map[string]any
}{
	"kcp-publisher": {"kcp-system", map[string]any{
		"location": "registry.example/fleet", "components": []any{"registry.example/modules"},
		"keys": map[string]any{"secretName": "fleet-keys"}, "registry": map[string]any{
			"configSecretName": "registry-publisher",
		},
	}},
	"skr-agent": {"kyma-system", map[string]any{}},
}

// writeManifests renders each chart into a file for kubectl apply, and into an archive with kustomize bases.
func (r *release) writeManifests() error {
	bases, err := r.bases()
	if err != nil {
		return err
	}
	for _, base := range bases {
		if name, file := path.Split(base.Name); file == installFile {
			name = manifestFile(path.Clean(name), r.version)
			if err := os.WriteFile(filepath.Join(r.dir, name), base.Data, 0o644); err != nil {
				return err
			}
		}
	}
	packed, err := pack(bases, r.commit.time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, kustomizeFile(r.version)), packed, 0o644)
}

// writeBases writes the kustomize base of each program as a folder.
func (r *release) writeBases() error {
	bases, err := r.bases()
	if err != nil {
		return err
	}
	for _, base := range bases {
		file := filepath.Join(r.dir, filepath.FromSlash(base.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, base.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

const installFile = "install.yaml"

// bases returns the files of a kustomize base for each program: its manifest and a kustomization.yaml.
func (r *release) bases() (files []plaintar.File, err error) {
	for _, name := range programs {
		text, err := r.manifest(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files,
			plaintar.File{Name: path.Join(name, installFile), Data: text, Mode: 0o644},
			plaintar.File{Name: path.Join(name, "kustomization.yaml"), Data: []byte(kustomization), Mode: 0o644},
		)
	}
	return files, nil
}

const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- install.yaml
`

// manifest returns a chart's namespace, CRDs and rendered objects as YAML documents.
func (r *release) manifest(name string) ([]byte, error) {
	loaded, err := r.loadChart(name)
	if err != nil {
		return nil, err
	}
	installed := installations[name]
	options := chartutil.ReleaseOptions{Name: name, Namespace: installed.namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(loaded, installed.values, options, nil)
	if err != nil {
		return nil, err
	}
	// Helm does not manage objects that users apply with kubectl.
	values["Release"].(map[string]any)["Service"] = "kubectl"
	rendered, err := engine.Render(loaded, values)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s %s, for kubectl apply --server-side -f or as a base of kustomize.\n", name, r.version)
	if len(installed.values) > 0 {
		fmt.Fprintln(&out, "# Replace registry.example/fleet and registry.example/modules with your own locations.")
	}
	fmt.Fprintf(&out, "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", installed.namespace)
	add := func(text string) {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		fmt.Fprintf(&out, "---\n%s\n", strings.TrimPrefix(text, "---\n"))
	}
	for _, crd := range loaded.CRDObjects() { // sorted by file name
		add(string(crd.File.Data))
	}
	// Write CRDs before the objects that use them.
	names := slices.Sorted(maps.Keys(rendered))
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	for _, file := range names {
		if ext := path.Ext(file); ext == ".yaml" {
			add(rendered[file])
		}
	}
	return out.Bytes(), nil
}

func order(file string) int {
	switch path.Base(file) {
	case "crds.yaml":
		return 0
	case "serviceaccount.yaml":
		return 1
	}
	return 2
}
