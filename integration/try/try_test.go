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

func TestInvalidTrialOptionsAreRejected(t *testing.T) {
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
		"versions without a component": {Options{From: "1.0.0"}, "need a component name"},
		"component without versions": {
			Options{Component: "example.org/mailer", To: "1.1.0"}, "newer version are required",
		},
		"FROM and TO with the same version": {
			Options{Component: "example.org/mailer", From: "1.0.0", To: "1.0.0"},
			"the older and the newer version are both",
		},
		"component without a source": {with(nil, nil), "set the registry path"},
		"missing archive":            {with([]string{"ctf:/nowhere"}, nil), "components ctf:/nowhere"},
		"folder without archives":    {with([]string{t.TempDir()}, nil), "does not contain"},
		"missing templates":          {with([]string{"r.example/x"}, []string{"/nowhere"}), "templates: "},
		"template with invalid YAML": {with([]string{"r.example/x"}, []string{file(t, "a: b: c")}), "templates "},
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

func TestComponentsAndTemplatesAreReadFromFolders(t *testing.T) {
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
		t.Errorf("unexpected template of the older version: %+v", from)
	}
	if to.Name != "mailer-1.1.0" || to.Spec.Version != "1.1.0" {
		t.Errorf("unexpected template of the newer version: %+v", to)
	}
}

func TestFaultsAffectOnlyReplaceableObjects(t *testing.T) {
	of := func(kinds ...string) (all []object) {
		for _, kind := range kinds {
			all = append(all, object{schema.GroupVersionKind{Version: "v1", Kind: kind}, client.ObjectKey{Name: "it"}})
		}
		return all
	}
	if o, ok := objectToDelete(of("CustomResourceDefinition", "Deployment", "ConfigMap")); !ok || o.Kind != "ConfigMap" {
		t.Errorf("objectToDelete returned %s, %t", o, ok)
	}
	if o, ok := objectToDelete(of("CustomResourceDefinition", "Namespace", "Secret", "PersistentVolumeClaim",
		"StatefulSet", "Mailer")); ok {
		t.Errorf("objectToDelete returned %s, want no object", o)
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
			t.Errorf("%s: change returned path %v, want %s", kind, changed, path)
		}
		have, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata")
		if path == "" && (have != nil || len(o.Object) != len(before.Object)) {
			t.Errorf("%s: change set the field to %v", kind, o.Object)
		}
	}
	for _, o := range []map[string]any{{"kind": "ConfigMap"},
		{"kind": "ConfigMap", "immutable": true, "data": map[string]any{"level": "info"}}} {
		if changed := change(&unstructured.Unstructured{Object: o}); changed != nil {
			t.Errorf("change returned path %v for %v, want none", changed, o)
		}
	}
}

func TestTrialWithoutStepsFails(t *testing.T) {
	if Passed(nil) || Passed([]Verdict{{}, {Err: errNotRun}}) || !Passed([]Verdict{{}, {}}) {
		t.Error("Passed returned true without steps")
	}
}
