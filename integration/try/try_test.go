package try

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestUntriableModuleIsReported(t *testing.T) {
	with := func(components, templates []string) Options {
		return Options{
			Component: "example.org/module/mailer", From: "1.0.0", To: "1.1.0", Components: components,
			Templates: templates,
		}
	}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"versions without a component": {Options{From: "1.0.0"}, "not of which component"},
		"a component without versions": {
			Options{Component: "example.org/mailer", To: "1.1.0"}, "set the versions",
		},
		"the same version twice": {
			Options{Component: "example.org/mailer", From: "1.0.0", To: "1.0.0"},
			"both the version to upgrade from and to",
		},
		"a component that is nowhere":      {with(nil, nil), "give a registry path"},
		"an archive that is not there":     {with([]string{"ctf:/nowhere"}, nil), "components ctf:/nowhere"},
		"a folder without archives":        {with([]string{t.TempDir()}, nil), "contains none"},
		"templates that are not there":     {with([]string{"r.example/x"}, []string{"/nowhere"}), "templates: "},
		"a template that is not even YAML": {with([]string{"r.example/x"}, []string{file(t, "a: b: c")}), "templates "},
	} {
		if _, err := Run(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestComponentsComeFromArchivesInAFolderAndTemplatesFromFiles(t *testing.T) {
	folder := t.TempDir()
	archive := filepath.Join(folder, "mailer-1.0.0")
	if err := errors.Join(os.Mkdir(archive, 0o700),
		os.WriteFile(filepath.Join(archive, "artifact-index.json"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(folder, "mailer-1.1.0.tgz"), nil, 0o600),
		os.WriteFile(filepath.Join(folder, "README.md"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	template := file(t, `kind: ModuleTemplate
metadata: {name: mailer-one, namespace: elsewhere}
spec: {moduleName: mailer, version: 1.0.0, requiresDowntime: true}
---
kind: ConfigMap
`)
	m, err := Options{
		Component: "example.org/module/mailer", From: "1.0.0", To: "1.1.0",
		Components: []string{folder, "r.example/x", "ctf:" + archive}, Templates: []string{template},
	}.module()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{archive, filepath.Join(folder, "mailer-1.1.0.tgz"), "r.example/x", archive}
	if m.name != "mailer" || !slices.Equal(m.components, want) {
		t.Errorf("module %s of %v, want %v", m.name, m.components, want)
	}
	from, to := m.templates[0], m.templates[1]
	if from.Name != "mailer-one" || from.Namespace != "kcp-system" || !from.Spec.RequiresDowntime ||
		len(from.Spec.Descriptor.Raw) == 0 {
		t.Errorf("the given template became %+v", from)
	}
	if to.Name != "mailer-1.1.0" || to.Spec.Version != "1.1.0" {
		t.Errorf("the other template is %+v", to)
	}
}

func TestFaultsHitOnlyExpendableObjects(t *testing.T) {
	of := func(kinds ...string) (all []object) {
		for _, kind := range kinds {
			all = append(all, object{schema.GroupVersionKind{Version: "v1", Kind: kind}, client.ObjectKey{Name: "it"}})
		}
		return all
	}
	if o, ok := deletable(of("CustomResourceDefinition", "Deployment", "ConfigMap")); !ok || o.Kind != "ConfigMap" {
		t.Errorf("would delete %s, %t", o, ok)
	}
	if o, ok := deletable(of("CustomResourceDefinition", "Namespace", "Secret", "PersistentVolumeClaim", "StatefulSet",
		"Mailer")); ok {
		t.Errorf("would delete %s", o)
	}
	for kind, path := range map[string]string{
		"ConfigMap": "data", "ClusterRole": "rules", "Deployment": "spec.template.spec.containers", "Secret": "",
		"Namespace": "",
	} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"kind": kind, "data": map[string]any{"level": "info"},
			"rules": []any{map[string]any{"verbs": []any{"get"}}},
			"spec": map[string]any{
				"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "a"}}}},
			},
		}}
		before := o.DeepCopy()
		if changed := change(o); strings.Join(changed, ".") != path {
			t.Errorf("%s: changes %v, want %s", kind, changed, path)
		}
		have, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata")
		if path == "" && (have != nil || len(o.Object) != len(before.Object)) {
			t.Errorf("%s: changed to %v", kind, o.Object)
		}
	}
	for _, o := range []map[string]any{{"kind": "ConfigMap"},
		{"kind": "ConfigMap", "immutable": true, "data": map[string]any{"level": "info"}}} {
		if changed := change(&unstructured.Unstructured{Object: o}); changed != nil {
			t.Errorf("changes %v of %v", changed, o)
		}
	}
}

func TestTryWithoutAStepDoesNotPass(t *testing.T) {
	if Passed(nil) || Passed([]Verdict{{}, {Err: errNotRun}}) || !Passed([]Verdict{{}, {}}) {
		t.Error("a try has passed when there are steps and all of them passed")
	}
}
