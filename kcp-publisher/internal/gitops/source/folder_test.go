package source

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	kyma = `apiVersion: operator.kyma-project.io/v1beta2
kind: Kyma
metadata: {name: one}
spec:
  channel: regular
`
	template = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata: {name: keda-1.0.0}
spec: {moduleName: keda, version: 1.0.0, descriptor: {}}
`
	releaseMeta = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda}
spec:
  moduleName: keda
  channels:
  - {channel: regular, version: 1.0.0}
`
	policyHeader = `apiVersion: fleet.kyma-project.io/v1alpha1
kind: RolloutPolicy
metadata: {name: slow}
spec:
  waves:
  - name: canary
    count: 3
`
)

func TestFolderReturnsItsObjects(t *testing.T) {
	objects, err := Folder(folder(t, map[string]string{
		"fleet/one.yaml":      kyma,
		"catalog/keda.yml":    template + "---\n# a comment is not an object\n---\n" + releaseMeta,
		"catalog/second.json": `{"apiVersion":"operator.kyma-project.io/v1beta2","kind":"ModuleTemplate","metadata":{"name":"mail-1.0.0"},"spec":{"descriptor":{}}}`,
		"keys/release.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: release, labels: " +
			"{operator.kyma-project.io/signature: release}}\nstringData: {key: PEM}\n",
		"modules/keda.tgz":  "the content is not read",
		"modules/README.md": "for people",
		"empty.yaml":        "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Kymas) != 1 || len(objects.Templates) != 2 || len(objects.Metas) != 1 ||
		len(objects.Components) != 1 || len(objects.Secrets) != 1 {
		t.Errorf("got objects %+v", objects)
	}
	if string(objects.Secrets[0].Data["key"]) != "PEM" || filepath.Base(objects.Components[0]) != "keda.tgz" {
		t.Errorf("got Secrets %v and components %v", objects.Secrets, objects.Components)
	}
	if len(objects.Written) != 5 || !strings.HasSuffix(objects.Written[1].Place, "catalog/keda.yml:8") {
		t.Errorf("got written objects %+v", objects.Written)
	}
	if objects.Metas[0].Spec.Channels[0] != (v1beta2.ChannelVersion{Channel: "regular", Version: "1.0.0"}) {
		t.Errorf("got ModuleReleaseMeta %+v, want channel regular with 1.0.0", objects.Metas[0])
	}
}

func TestKymasGetTheAPIServersDefaults(t *testing.T) {
	objects, err := Folder(folder(t, map[string]string{"one.yaml": kyma + `  modules:
  - name: keda
  - {name: mail, managed: false, customResourcePolicy: Ignore}
  - {name: both, managed: true, customResourcePolicy: CreateAndDelete}
`}))
	if err != nil {
		t.Fatal(err)
	}
	want := []v1beta2.Module{
		{Name: "keda", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
		{Name: "mail", Managed: false, CustomResourcePolicy: v1beta2.PolicyIgnore},
		{Name: "both", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
	}
	if got := objects.Kymas[0].Spec.Modules; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestEmptyFieldIsTreatedAsAbsent(t *testing.T) {
	objects, err := Folder(folder(t, map[string]string{
		"one.yaml": strings.Replace(kyma, "{name: one}", "{name: one, labels: }", 1) + "  modules:\n",
	}))
	if err != nil || len(objects.Kymas) != 1 {
		t.Fatalf("got objects %+v and error %v, want one Kyma", objects, err)
	}
	spec := objects.Written[0].Object.Object["spec"]
	if !reflect.DeepEqual(spec, map[string]any{"channel": "regular"}) {
		t.Errorf("got spec %v, want only channel regular", spec)
	}
}

func TestInvalidFilesAreReportedWithFileAndLine(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"Invalid YAML":            {"apiVersion: [", "bad.yaml: document 1: line 1"},
		"Invalid second document": {kyma + "---\na: [", "bad.yaml: document 2"},
		"Unknown kind": {
			kyma + "---\napiVersion: operator.kyma-project.io/v1beta2\nkind: Manifest\n",
			`bad.yaml:7: unknown kind "Manifest", must be Kyma, ModuleTemplate, ModuleReleaseMeta, Watcher, RolloutPolicy, PromotionPolicy or Secret`,
		},
		"Kustomization": {
			"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [kyma.yaml]\n",
			"bad.yaml:1: is a kustomization, and kustomizations are not built: ",
		},
		"Unknown API": {
			"\napiVersion: v1\nkind: ConfigMap\n",
			`bad.yaml:2: unknown apiVersion "v1" of kind "ConfigMap", must be operator.kyma-project.io/v1beta2`,
		},
		"Unsupported API version v1beta1": {
			"apiVersion: operator.kyma-project.io/v1beta1\nkind: Kyma\n",
			`bad.yaml:1: unknown apiVersion "operator.kyma-project.io/v1beta1" of kind "Kyma"`,
		},
		"Secret without public keys": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: password}\n",
			`bad.yaml:3:1: metadata.labels: only Secrets with public keys, labeled operator.kyma-project.io/signature`,
		},
		"List instead of an object": {
			"- a\n- b\n", "bad.yaml:1: not a Kubernetes object: apiVersion, kind and metadata are required",
		},
		"Text instead of an object": {"hello\n", "bad.yaml:1: not a Kubernetes object"},
		"Unknown field":             {kyma + "  chanel: fast\n", "bad.yaml:6:3: spec.chanel: unknown field"},
		"Unknown field of a module": {
			kyma + "  modules:\n  - {name: keda, chanel: fast}\n",
			"bad.yaml:7:18: spec.modules[0].chanel: unknown field",
		},
		"Field with wrong case": {kyma + "  Modules: []\n", "bad.yaml:6:3: spec.Modules: unknown field"},
		"Field with wrong type": {
			kyma + "  skipMaintenanceWindows: often\n",
			`bad.yaml:6:3: spec.skipMaintenanceWindows: must be of type boolean`,
		},
		"Invalid name": {
			strings.Replace(kyma, "name: one", "name: One_", 1),
			`bad.yaml:3:12: metadata.name: "One_": a lowercase RFC 1123 subdomain`,
		},
		"Invalid channel": {
			strings.Replace(kyma, "regular", "Regular_x", 1), `bad.yaml:5:3: spec.channel: "Regular_x": should match`,
		},
		"Invalid module name": {
			strings.Replace(releaseMeta, "moduleName: keda", "moduleName: db", 1), `bad.yaml:5:3: spec.moduleName: `,
		},
		"Policy with an unnamed wave": {
			"apiVersion: fleet.kyma-project.io/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: slow}\nspec:\n  " +
				"waves:\n  - {count: 3}\n", "bad.yaml:6:5: spec.waves[0].name: is required",
		},
		"Policy with an expression that does not compile": {
			policyHeader + "    checks:\n    - {name: ready, cel: {expression: 'objcts == []'}}\n",
			"bad.yaml:9:27: spec.waves[0].checks[0].cel.expression: line 1, column 1: undeclared reference to 'objcts'",
		},
		"Policy whose latency limit equals its timeout": {
			policyHeader + "    checks:\n    - name: fast\n      http:\n        " +
				"service: {namespace: a, name: b, port: 80}\n        maxLatency: 10s\n",
			"bad.yaml:12:9: spec.waves[0].checks[0].http.maxLatency: maxLatency is 10s, must be less than timeout",
		},
		"Policy with a short interval": {
			policyHeader + "    checks:\n    - {name: ready, cel: {expression: 'true'}, interval: 1s}\n",
			"bad.yaml:4:1: spec: waves[0].checks[0] (ready): interval: 1s, must be at least 10s",
		},
		"Invalid label": {
			strings.Replace(kyma, "{name: one}", "{name: one, labels: {a.b/c: 'x y'}}", 1), `bad.yaml:3:`,
		},
		"Duplicate key": {
			kyma + "  channel: fast\n", `bad.yaml: document 1: line 6: key "channel" appears twice`,
		},
		"Alias": {
			"a: &a x\nb: *a\n", "bad.yaml: document 1: line 1: anchors and aliases are not accepted",
		},
		"Object without a name": {
			strings.Replace(kyma, "name: one", "namespace: one", 1),
			"bad.yaml:3:1: metadata.name: name or generateName is required",
		},
		"Module without a name": {
			kyma + "  modules:\n  - {channel: fast}\n", "bad.yaml:7:5: spec.modules[0].name: is required",
		},
		"Duplicate module": {
			kyma + "  modules:\n  - {name: keda}\n  - {name: keda, channel: fast}\n",
			`bad.yaml:8:5: spec.modules[1]: {"name":"keda"}: appears twice`,
		},
		"Unsupported API version v1alpha1": {
			"\napiVersion: operator.kyma-project.io/v1alpha1\nkind: Kyma\n",
			`bad.yaml:2: unknown apiVersion "operator.kyma-project.io/v1alpha1" of kind "Kyma", must be operator.kyma-project.io/v1beta2`,
		},
		"Unknown customResourcePolicy": {
			kyma + "  modules:\n  - {name: keda, customResourcePolicy: ignore}\n",
			`bad.yaml:7:18: spec.modules[0].customResourcePolicy: "ignore": supported values: "CreateAndDelete", "Ignore"`,
		},
		"Channel with two versions": {
			releaseMeta + "  - {channel: regular, version: 2.0.0}\n",
			`bad.yaml:8:5: spec.channels[1]: {"channel":"regular"}: appears twice`,
		},
		"ModuleReleaseMeta without a module name": {
			strings.Replace(releaseMeta, "moduleName: keda", "beta: true", 1),
			"bad.yaml:4:1: spec.moduleName: is required",
		},
		"Duplicate object": {
			releaseMeta + "---\n" + releaseMeta, "bad.yaml:9: ModuleReleaseMeta keda is already defined in ",
		},
		"File over the size limit": {
			strings.Repeat("#", maxFileBytes+1), "bad.yaml is 4194305 bytes, must be at most 4194304 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"deep/bad.yaml": c.content, "good.yaml": template})
			_, err := Folder(dir)
			if want := filepath.Join(dir, "deep", c.want); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestObjectsAsWrittenHaveNoDefaults(t *testing.T) {
	policy := "apiVersion: fleet.kyma-project.io/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: slow}\nspec: " +
		"{waves: [{name: first, count: 3}]}\n"
	objects, err := Files(
		os.DirFS(folder(t, map[string]string{"fleet/one.yaml": kyma + "  modules: [{name: keda}]\n---\n" + policy})),
		"here")
	if err != nil || len(objects.Written) != 2 {
		t.Fatalf("got written objects %+v and error %v, want 2", objects.Written, err)
	}
	modules := objects.Written[0].Object.Object["spec"].(map[string]any)["modules"]
	if want := []any{map[string]any{"name": "keda"}}; !reflect.DeepEqual(modules, want) {
		t.Errorf("got modules %v, want %v", modules, want)
	}
	wave := objects.Written[1].Object.Object["spec"].(map[string]any)["waves"].([]any)[0]
	if want := map[string]any{"name": "first",
		"count": int64(3)}; objects.Written[1].Place != "here/fleet/one.yaml:8" || !reflect.DeepEqual(wave, want) {
		t.Errorf("got wave %v at %s, want %v at line 8", wave, objects.Written[1].Place, want)
	}
}

func TestErrorNamesAllInvalidFiles(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": "kind: Kyma", "b.yaml": "a: [", "c.yaml": "a: 1\n---\nb: 2"})
	_, err := Folder(dir)
	if err == nil {
		t.Fatal("invalid files are accepted")
	}
	for _, want := range []string{"a.yaml:1:", "b.yaml: document 1", "c.yaml:1:", "c.yaml:3:"} {
		if !strings.Contains(err.Error(), filepath.Join(dir, want)) {
			t.Errorf("error %v\ndoes not contain %s", err, want)
		}
	}
}

func TestKymasInTwoNamespacesCanShareAName(t *testing.T) {
	inTest := strings.Replace(kyma, "name: one", "name: one, namespace: test", 1)
	objects, err := Folder(folder(t, map[string]string{"a.yaml": kyma, "b.yaml": inTest}))
	if err != nil || len(objects.Kymas) != 2 {
		t.Errorf("got %d Kymas and error %v, want 2", len(objects.Kymas), err)
	}
}

func TestTransportArchivesAreListedWithoutReadingBlobs(t *testing.T) {
	dir := folder(t, map[string]string{
		"keda.yaml":                          template,
		"archives/keda/artifact-index.json":  "{}",
		"archives/keda/blobs/broken.yaml":    "a: [",
		"archives/mail/artifact-index.json":  "{}",
		"archives/mail/nested/more/notes.md": "not an object",
	})
	objects, err := Folder(dir)
	want := []string{filepath.Join(dir, "archives", "keda"), filepath.Join(dir, "archives", "mail")}
	if err != nil || !reflect.DeepEqual(objects.Components, want) || len(objects.Templates) != 1 {
		t.Errorf("got objects %+v and error %v, want components %v", objects, err, want)
	}
}

func TestNonYAMLAndHiddenFilesAreIgnored(t *testing.T) {
	objects, err := Folder(folder(t, map[string]string{
		"README.md": "# hello", "keda.yaml.bak": "a: [", "script.sh": "a: [", "noextension": "a: [",
		".git/config.yaml": "a: [", ".github/workflow.yml": "a: [", ".gitlab-ci.yml": "a: [",
		"kymas/.pre-commit-config.yaml": "a: [",
	}))
	if err != nil || !reflect.DeepEqual(objects, Objects{}) {
		t.Errorf("got objects %+v and error %v, want none", objects, err)
	}
}

func TestFolderWithAHiddenNameIsRead(t *testing.T) {
	dir := folder(t, map[string]string{".state/one.yaml": kyma})
	if objects, err := Folder(filepath.Join(dir, ".state")); err != nil || len(objects.Kymas) != 1 {
		t.Errorf("got objects %+v and error %v, want one Kyma", objects, err)
	}
}

func TestMissingFolderIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	if _, err := Folder(dir); err == nil || err.Error() != "read folder "+dir+": no such file or directory" {
		t.Errorf("missing folder: got error %v", err)
	}
}

func TestLinkToAFolderIsAnError(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kymas", "..data"} {
		if err := os.Symlink(t.TempDir(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Folder(dir)
	if err == nil ||
		!strings.Contains(err.Error(),
			filepath.Join(dir, "kymas")+" is a symbolic link to a folder, which is not followed") ||
		strings.Contains(err.Error(), "..data") {
		t.Errorf("link to a folder: got error %v, want a refusal", err)
	}
}

func TestObjectsInArchiveFoldersAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // part of the error, or empty
	}{
		"archive without objects": {map[string]string{
			"modules/artifact-index.json": "{}", "modules/blobs/sha256.0123": "{}", "fleet/one.yaml": kyma,
			"modules/.gitlab-ci.yml": "{}",
		}, ""},
		"objects next to the index": {map[string]string{
			"fleet/artifact-index.json": "{}", "fleet/one.yaml": kyma,
		}, filepath.Join("fleet", "one.yaml") + " is ignored, because its folder is an archive"},
		"objects in a folder below the index": {map[string]string{
			"artifact-index.json": "{}", "fleet/one.yaml": kyma,
		}, filepath.Join("fleet", "one.yaml") + " is ignored, because its folder is an archive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Folder(folder(t, c.files))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestFileInsteadOfFolderIsRefused(t *testing.T) {
	file := filepath.Join(folder(t, map[string]string{"kyma.yaml": kyma}), "kyma.yaml")
	if _, err := Folder(file); err == nil || !strings.Contains(err.Error(), file+" is a file: use a folder") {
		t.Errorf("got error %v, want an error that asks for a folder", err)
	}
}
