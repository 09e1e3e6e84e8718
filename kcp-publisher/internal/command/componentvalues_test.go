package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestCreatedModuleTemplateListsItsRuntimeValues(t *testing.T) {
	chart, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(chart, "Chart.yaml"), "apiVersion: v2\nname: mailer\nversion: 1.0.0\n")
	write(t, filepath.Join(chart, "templates", "a.yaml"),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"{{ .Values.replicas }}\"}\n")
	cr, template := filepath.Join(dir, "cr.yaml"), filepath.Join(dir, "template.yaml")
	write(t, cr, "apiVersion: example.org/v1\nkind: Mailer\nmetadata: {name: a}\n"+
		"spec: {region: '${kyma-pull.dev/values.region}'}\n")
	create := func(set string) outcome {
		return run("component", "create", "example.org/mailer:1.0.0", "--from", chart, "--to",
			"ctf:"+filepath.Join(dir, "store"), "--default-cr", cr, "--module-template", template, "--set", set)
	}
	if o := create("replicas=${kyma-pull.dev/values.replicas:int}"); o.code != 0 {
		t.Fatalf("got %+v, want a component", o)
	}
	if text := read(t, template); !strings.Contains(text, "kyma-pull.dev/uses-values: region, replicas:int\n") {
		t.Errorf("got ModuleTemplate %s, want the values that it uses", text)
	}
	o := create("replicas=${kyma-pull.dev/values.replicas:number}")
	if o.code != cli.ExitUsage || !strings.Contains(o.err, "chart values: replicas: value \"replicas:number\": the type") {
		t.Errorf("got %+v, want the field, the value and the types", o)
	}
}

func TestComponentRoleUsesValuesAndCapabilities(t *testing.T) {
	chart, archive := t.TempDir(), filepath.Join(t.TempDir(), "store")
	write(t, filepath.Join(chart, "Chart.yaml"), "apiVersion: v2\nname: mailer\nversion: 1.0.0\n")
	write(t, filepath.Join(chart, "values.schema.json"), `{"properties": {"replicas": {"type": "integer"}}}`)
	write(t, filepath.Join(chart, "templates", "a.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"+
		"data: {a: \"{{ .Values.replicas }}\"}\n"+
		"{{- if .Capabilities.APIVersions.Has \"example.org/v1\" }}\n---\n"+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n{{- end }}\n"+
		"{{- if semverCompare \">=1.90-0\" .Capabilities.KubeVersion.Version }}\n---\n"+
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}\n{{- end }}\n")
	mustRun(t, "component", "create", "example.org/mailer:1.0.0", "--from", chart, "--to", "ctf:"+archive, "--set",
		"replicas=${kyma-pull.dev/values.replicas:int}")
	role := func(args ...string) string {
		return mustRun(t, append([]string{"component", "role", "example.org/mailer:1.0.0", "--components", archive},
			args...)...)
	}
	for name, c := range map[string]struct {
		args, has, lacks []string
	}{
		"values": {nil, []string{"configmaps"}, []string{"secrets", "services"}},
		"an API version": {
			[]string{"--api-versions", "example.org/v1"}, []string{"configmaps", "secrets"}, []string{"services"},
		},
		"a later Kubernetes": {
			[]string{"--kube-version", "1.91"}, []string{"configmaps", "services"}, []string{"secrets"},
		},
	} {
		out := role(c.args...)
		for _, want := range c.has {
			if !strings.Contains(out, "  - "+want+"\n") {
				t.Errorf("%s: the role does not contain %s:\n%s", name, want, out)
			}
		}
		for _, unwanted := range c.lacks {
			if strings.Contains(out, "  - "+unwanted+"\n") {
				t.Errorf("%s: the role contains %s:\n%s", name, unwanted, out)
			}
		}
	}
}
