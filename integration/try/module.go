package try

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

type module struct {
	name, component, from, to string
	// components contains the registry paths and archives with the module. templates contains the ModuleTemplates of
	// both versions. Both are empty for the sample module: samples contains its versions.
	components []string
	templates  []*v1beta2.ModuleTemplate
	samples    []sample.Version
}

const maxTemplateBytes = 4 << 20

func (o Options) module() (module, error) {
	if o.Component == "" {
		return o.sample()
	}
	m := module{name: path.Base(o.Component), component: o.Component, from: o.From, to: o.To}
	switch {
	case m.from == "" || m.to == "":
		return m, fmt.Errorf("component %s: both the older and the newer version are required", o.Component)
	case m.from == m.to:
		return m, fmt.Errorf("component %s: the older and the newer version are both %s", o.Component, m.to)
	case len(o.Components) == 0:
		return m,
			fmt.Errorf("component %s: set the registry path, archive or folder of archives that contains it",
				o.Component)
	}
	for _, source := range o.Components {
		found, err := sources(source)
		if err != nil {
			return m, err
		}
		m.components = append(m.components, found...)
	}
	templates, err := readTemplates(o.Templates)
	if err != nil {
		return m, err
	}
	for _, version := range []string{m.from, m.to} {
		m.templates = append(m.templates, m.template(version, templates))
	}
	return m, nil
}

func (o Options) sample() (module, error) {
	if o.From != "" || o.To != "" || len(o.Components) > 0 || len(o.Templates) > 0 {
		return module{}, errors.New("versions, components and templates need a component name: set Component")
	}
	from, to := sample.Scaler("1.7.0"), sample.Scaler("1.8.0")
	if o.Environment != nil || o.Fleet != nil { // real pods need a sample module with images
		from, to = samplemodule.Good(), samplemodule.Better()
	}
	return module{name: from.Module, component: from.Component(), from: from.Version, to: to.Version,
		samples: []sample.Version{from, to}}, nil
}

// sources returns the publisher's --components values for a registry path, an archive, or a folder of archives.
func sources(name string) ([]string, error) {
	location, isArchive := strings.CutPrefix(name, "ctf:")
	info, err := os.Stat(location)
	if isArchive && err != nil {
		return nil, fmt.Errorf("components %s: %w", name, err)
	}
	if err != nil { // not a path on this machine, so it must be a registry path
		return []string{name}, nil
	}
	location, err = filepath.Abs(location) // the publisher runs in another working directory
	if err != nil || !info.IsDir() || archive(location) {
		return []string{location}, err
	}
	entries, err := os.ReadDir(location)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if p := filepath.Join(location, e.Name()); archive(p) || strings.HasSuffix(p, ".tgz") ||
			strings.HasSuffix(p, ".tar") {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("components %s: the folder does not contain a common transport archive", name)
	}
	return found, nil
}

// archive reports whether a folder is a common transport archive.
func archive(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "artifact-index.json"))
	return err == nil
}

// template returns the ModuleTemplate of a version from templates, or a minimal ModuleTemplate.
func (m module) template(version string, templates []*v1beta2.ModuleTemplate) *v1beta2.ModuleTemplate {
	at := slices.IndexFunc(templates, func(t *v1beta2.ModuleTemplate) bool {
		return t.Spec.ModuleName == m.name && t.Spec.Version == version
	})
	if at < 0 {
		return sample.Version{Module: m.name, Version: version}.Template()
	}
	t := templates[at].DeepCopy()
	t.ObjectMeta = metav1.ObjectMeta{
		Namespace: sample.Namespace, Name: t.Name, Labels: t.Labels, Annotations: t.Annotations,
	}
	if t.Spec.Descriptor.Raw == nil {
		t.Spec.Descriptor = runtime.RawExtension{Raw: []byte(`{}`)}
	}
	return t
}

func readTemplates(names []string) ([]*v1beta2.ModuleTemplate, error) {
	var all []*v1beta2.ModuleTemplate
	for _, name := range names {
		files := []string{name}
		if info, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("templates: %w", err)
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(name, "*.yaml")); err != nil {
				return nil, fmt.Errorf("templates %s: %w", name, err)
			}
		}
		for _, file := range files {
			found, err := readTemplateFile(file)
			if err != nil {
				return nil, fmt.Errorf("templates %s: %w", file, err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

func readTemplateFile(file string) (all []*v1beta2.ModuleTemplate, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(io.LimitReader(f, maxTemplateBytes), 4096); ; {
		t := &v1beta2.ModuleTemplate{}
		if err := decoder.Decode(t); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if t.Kind == "ModuleTemplate" {
			all = append(all, t)
		}
	}
}
