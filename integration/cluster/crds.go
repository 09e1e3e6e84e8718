package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// installCRDs creates CRDs and waits until they are served.
func installCRDs(config *rest.Config, systems []fs.FS) error {
	return tryCRDs(systems, func(options envtest.CRDInstallOptions) error {
		_, err := envtest.InstallCRDs(config, options)
		return err
	})
}

// waitForCRDs waits until existing CRDs are served.
func waitForCRDs(config *rest.Config, systems []fs.FS) error {
	return tryCRDs(systems, func(options envtest.CRDInstallOptions) error {
		return envtest.WaitForCRDs(config, options.CRDs, options)
	})
}

// tryCRDs calls the function try with all CRDs in the file systems. After an error, it calls try again, because a
// connection to the API server can end early on a busy machine.
func tryCRDs(systems []fs.FS, try func(envtest.CRDInstallOptions) error) error {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, system := range systems {
		found, err := readCRDs(system)
		if err != nil {
			return err
		}
		crds = append(crds, found...)
	}
	if len(crds) == 0 {
		return nil
	}
	var err error
	for range crdAttempts {
		if err = try(envtest.CRDInstallOptions{
			CRDs: crds, MaxTime: time.Minute, PollInterval: 100 * time.Millisecond,
		}); err == nil {
			return nil
		}
	}
	return fmt.Errorf("make the API server serve %d CRDs: %w", len(crds), err)
}

const crdAttempts = 3

// readCRDs returns every CustomResourceDefinition in the YAML files of a file system.
func readCRDs(system fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(system, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" {
			return err
		}
		content, err := fs.ReadFile(system, name)
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("read CRDs from %s: %w", name, err)
			}
			if crd.Kind == "CustomResourceDefinition" {
				crds = append(crds, crd)
			}
		}
	})
	return crds, err
}
