package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

type outcome struct {
	code     int
	out, err string
}

func run(args ...string) outcome {
	var out, errOut bytes.Buffer
	code := Execute("v0.0.0-test", args, &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}

// mustRun runs a command that must succeed and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	o := run(args...)
	if o.code != cli.ExitDone {
		t.Fatalf("%v: exit %d: %s", args, o.code, o.err)
	}
	return o.out
}

func keyFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	mustRun(t, "keys", "init", "--keys", dir)
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestKeysInitCreatesAllKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "keys")
	var made []keys.WrittenFile
	if err := json.Unmarshal([]byte(mustRun(t, "keys", "init", "--keys", dir, "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	for _, f := range made {
		info, err := os.Stat(f.File)
		if err != nil {
			t.Fatal(err)
		}
		if secret := filepath.Base(f.File) != keys.FileRoot; secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s, want 0600", f.File, info.Mode())
		}
	}
	if len(made) != 5 {
		t.Errorf("got %+v, want 5 files", made)
	}
	if _, err := (keys.Folder{Dir: dir}).Load(t.Context()); err != nil {
		t.Error(err)
	}
	if secret, err := (keys.Folder{Dir: dir}).TokenSecret(); err != nil || len(secret) != 32 {
		t.Errorf("got a token secret of %d bytes, %v, want 32 bytes", len(secret), err)
	}
}

func TestKeysInitNeverOverwrites(t *testing.T) {
	for _, left := range []string{keys.FileRoot, keys.FileRootKey, keys.FilePublisherKey, keys.FileTokenKey} {
		t.Run(left+" exists", func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, left), "precious")
			o := run("keys", "init", "--keys", dir)
			if o.code != cli.ExitFailed || !strings.Contains(o.err, filepath.Join(dir, left)+" already exists") || o.out != "" {
				t.Errorf("keys init in a folder with %s: got %+v, want an error", left, o)
			}
			if got := read(t, filepath.Join(dir, left)); got != "precious" {
				t.Errorf("existing file was overwritten with %q", got)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("got files %v, %v, want only the existing file", entries, err)
			}
		})
	}
}

func TestKeysShowPrintsThePinnedRoot(t *testing.T) {
	dir := keyFolder(t)
	loaded, err := keys.Folder{Dir: dir}.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := loaded.Root
	public, err := loaded.Signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		t.Fatal(err)
	}
	table := mustRun(t, "keys", "show", "--keys", dir)
	for _, want := range []string{"VERSION", "PUBLISHER KEYS", thumbprint, root.Expires.Format(time.DateOnly)} {
		if !strings.Contains(table, want) {
			t.Errorf("output does not contain %q:\n%s", want, table)
		}
	}
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": func(data []byte, into any) error { return yaml.Unmarshal(data, into) },
	} {
		var shown struct {
			Version, Epoch int64
			Publishers     []string
		}
		if err := unmarshal([]byte(mustRun(t, "keys", "show", "--keys", dir, "-o", format)), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.Version != 1 || shown.Epoch != root.Epoch || !slices.Equal(shown.Publishers, []string{thumbprint}) {
			t.Errorf("-o %s shows %+v, want the pinned root", format, shown)
		}
	}
}

func TestErrorsSetTheDocumentedExitCodes(t *testing.T) {
	dir := keyFolder(t)
	empty, bad := t.TempDir(), t.TempDir()
	write(t, filepath.Join(bad, "bad.yaml"), "kind: ConfigMap\napiVersion: v1\n")
	noDictionary := filepath.Join(t.TempDir(), "config.yaml")
	write(t, noDictionary, "- a")
	badPolicy := filepath.Join(t.TempDir(), "policy.json")
	write(t, badPolicy, `{"rules":[{"match":{"plan":"("},"windows":[]}]}`)
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"No arguments print the help":                    {"", cli.ExitDone, "kcp-publisher"},
		"--help succeeds":                                {"publish --help", cli.ExitDone, "--from"},
		"--version succeeds":                             {"--version", cli.ExitDone, "v0.0.0-test"},
		"keys without a subcommand prints its help":      {"keys", cli.ExitDone, "init"},
		"An unknown command is a usage error":            {"fly", cli.ExitUsage, `unknown command "fly"`},
		"A kubectl command suggests status":              {"get kymas", cli.ExitUsage, "did you mean status?"},
		"An unknown subcommand of keys is a usage error": {"keys lose", cli.ExitUsage, `unknown command "lose"`},
		"An unknown flag is a usage error":               {"publish --fast", cli.ExitUsage, "unknown flag: --fast"},
		"An invalid flag value is a usage error":         {"publish --validity soon", cli.ExitUsage, "--validity"},
		"An extra argument is a usage error": {
			"publish fleet/here", cli.ExitUsage, "expected no arguments: use --from fleet/here\n",
		},
		"A negative timeout is a usage error": {
			"reconcile berlin --timeout -1s", cli.ExitUsage, "--timeout -1s: must be at least 0",
		},
		"A missing argument is a usage error": {"rollout approve web", cli.ExitUsage, "got 1 argument\n"},
		"publish without --from is a usage error": {
			"publish --to oci-layout:x", cli.ExitUsage, "--from is required",
		},
		"publish without --to is a usage error": {"publish --from x", cli.ExitUsage, "--to is required"},
		"A location with a scheme is a usage error": {
			"publish --from " + empty + " --to https://host/path --keys " + dir, cli.ExitUsage, "--to: location",
		},
		"A missing component folder is a usage error": {
			"publish --from " + empty + " --to oci-layout:" + t.TempDir() + " --components ./nowhere --keys " + dir,
			cli.ExitUsage, "--components ./nowhere is not a folder or file",
		},
		"An unknown output format is a usage error": {
			"keys show -o xml --keys " + dir, cli.ExitUsage, `-o "xml": must be table, json or yaml`,
		},
		"enroll without a runtime is a usage error": {"enroll", cli.ExitUsage, "no runtimes selected"},
		"enroll with an invalid runtime ID is a usage error": {
			"enroll ../x --location l", cli.ExitUsage, `runtime ID "../x"`,
		},
		"The why command without a runtime is a usage error": {"why", cli.ExitUsage, "expected a runtime ID"},
		"run without --location is a usage error":            {"run", cli.ExitUsage, "--location is required"},
		"run with bundles that expire immediately is a usage error": {
			"run --location r.example/x --validity 0", cli.ExitUsage, "--validity 0s: must be more than 0",
		},
		"run with certificates that expire immediately is a usage error": {
			"run --location r.example/x --set certificate-validity=0", cli.ExitUsage,
			"certificate-validity 0s: must be more than 0",
		},
		"publish with bundles that expire immediately is a usage error": {
			"publish --from " + empty + " --to oci-layout:x --validity 0", cli.ExitUsage,
			"--validity 0s: must be more than 0",
		},
		"publish with a negative validity is a usage error": {
			"publish --from " + empty + " --to oci-layout:x --validity=-1h", cli.ExitUsage,
			"--validity -1h0m0s: must be at least 0",
		},
		"registry credentials without --location is a usage error": {
			"registry credentials berlin --keys " + dir, cli.ExitUsage, "--location is required",
		},
		"token-service without --location is a usage error": {
			"token-service --keys " + dir, cli.ExitUsage, "--location is required",
		},
		"An unknown component source is a usage error": {
			"component show example.org/module/mailer:1.0.0 --components nowhere", cli.ExitUsage,
			"--components nowhere is not a folder or file; a registry is HOST.DOMAIN/PATH",
		},
		"A file without checks is a failure": {
			"check-module " + badPolicy, cli.ExitFailed, badPolicy + ": not a file with checks: ",
		},
		"A file that is not a report is refused": {
			"import-report " + badPolicy + " --to oci-layout:x", cli.ExitRefused,
			badPolicy + ": not a report file from `skr-agent export-report`: ",
		},
		"keys floor without a component is a usage error": {
			"keys floor --keys " + dir, cli.ExitUsage, "expected a component and optionally a version, got 0 arguments",
		},
		"keys floor with a module name is a usage error": {
			"keys floor keda 1.2.0 --keys " + dir, cli.ExitUsage, `component name "keda": must be DOMAIN/PATH`,
		},
		"Removing a minimum version that is not set is a failure": {
			"keys floor kyma-project.io/module/keda --keys " + dir, cli.ExitFailed,
			"component kyma-project.io/module/keda has no minimum version, so nothing was changed",
		},
		"keys rotate with two roles is a usage error": {
			"keys rotate publisher enroll --keys " + dir, cli.ExitUsage, "expected at most one role, got 2 arguments",
		},
		"A root key that the root of trust does not list is a failure": {
			"keys rotate root --old abc --keys " + dir, cli.ExitFailed, "key abc is not a root key: the root keys are ",
		},
		"run with zero shards is a usage error": {
			"run --location r.example/x --keys " + dir + " --shards 0", cli.ExitUsage, "--shards 0: must be 1 to 64",
		},
		"run with too many shards is a usage error": {
			"run --location r.example/x --keys " + dir + " --shards 65", cli.ExitUsage, "--shards 65: must be 1 to 64",
		},
		"run with shards and an invalid selector is a usage error": {
			"run --location r.example/x --keys " + dir + " --shards 2 --watch-label-selector a=b=c", cli.ExitUsage,
			`--watch-label-selector "a=b=c": `,
		},
		"run with shards, a selector and a Git repository is a usage error": {
			"run --location r.example/x --keys " + dir + " --shards 2 --git-url https://git.example/x " +
				"--watch-label-selector a=b", cli.ExitUsage, "--git-url cannot be combined with --watch-label-selector",
		},
		"run with an invalid selector is a usage error": {
			"run --location r.example/x --keys " + dir + " --watch-label-selector a=b=c", cli.ExitUsage,
			`--watch-label-selector "a=b=c": `,
		},
		"run with an OCI layout is a usage error": {
			"run --location oci-layout:x", cli.ExitUsage, "--location must be a registry",
		},
		"A missing configuration file is a usage error": {
			"keys --config /nowhere.yaml", cli.ExitUsage, "--config: open /nowhere.yaml",
		},
		"A configuration file with a list is a usage error": {
			"keys --config " + noDictionary, cli.ExitUsage, "--config " + noDictionary,
		},
		"registry check without --to is a usage error": {
			"registry check --runtime berlin", cli.ExitUsage, "--to is required: ",
		},
		"registry check with one runtime is a usage error": {
			"registry check --to r.example/x --runtime berlin", cli.ExitUsage,
			"--runtime must be set twice, got 1 runtime: ",
		},
		"A missing registry CA file is a usage error": {
			"publish --from " + empty + " --to r.example/x --registry-ca /nowhere --keys " + dir, cli.ExitUsage,
			"--registry-ca: open /nowhere",
		},
		"A missing maintenance policy is a usage error": {
			"publish --from " + empty + " --to oci-layout:x --maintenance-policy /nowhere", cli.ExitUsage,
			"--maintenance-policy: open /nowhere",
		},
		"An invalid maintenance policy is a usage error": {
			"publish --from " + empty + " --to oci-layout:x --maintenance-policy " + badPolicy, cli.ExitUsage,
			badPolicy + ": rules[0].match.plan: error parsing regexp",
		},
		"A minimum window of more than a day is a usage error": {
			"run --location r.example/x --keys " + dir + " --set min-maintenance-window-size=25h", cli.ExitUsage,
			"min-maintenance-window-size 25h0m0s: must be 0 to 24h0m0s",
		},
		"A missing folder is a failure": {
			"publish --from /nowhere --to oci-layout:x", cli.ExitFailed, "/nowhere",
		},
		"A folder with an invalid file is a failure": {
			"publish --from " + bad + " --to oci-layout:x", cli.ExitFailed, "bad.yaml:1: unknown apiVersion",
		},
		"A missing key folder is a failure": {
			"keys show --keys /nowhere", cli.ExitFailed, "create one with `kcp-publisher keys init --keys /nowhere`",
		},
		"A missing key folder cannot be rotated": {
			"keys rotate --keys /nowhere", cli.ExitFailed, "create one with `kcp-publisher keys init --keys /nowhere`",
		},
		"A missing kubeconfig is a failure": {"why one --kubeconfig /nowhere", cli.ExitFailed, "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(strings.Fields(c.args)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v\nwant exit code %d with %q", o, c.code, c.want)
			}
			if c.code != cli.ExitDone && (o.out != "" || !strings.HasPrefix(o.err, "kcp-publisher: ")) {
				t.Errorf("want the error on the error output only, after the program name: %+v", o)
			}
			if strings.Contains(o.err, "--help") != (c.code == cli.ExitUsage) {
				t.Errorf("only usage errors must name --help: %q", o.err)
			}
		})
	}
}

func TestEnrollPrintsTheBootstrapSecret(t *testing.T) {
	dir := keyFolder(t)
	var secret struct {
		APIVersion, Kind, Type string
		Metadata               metav1.ObjectMeta
		StringData             map[string]string
	}
	out := mustRun(t, "enroll", "r-1", "--location", "registry.example/fleet", "--keys", dir)
	if err := yaml.UnmarshalStrict([]byte(out), &secret); err != nil {
		t.Fatal(err)
	}
	if secret.APIVersion != "v1" || secret.Kind != "Secret" || secret.Metadata.Namespace != "kyma-system" ||
		secret.Metadata.Name != "skr-agent-bootstrap" {
		t.Errorf("got Secret\n%s", out)
	}
	if secret.StringData["runtime"] != "r-1" || secret.StringData["location"] != "registry.example/fleet" ||
		secret.StringData["root.json"] != read(t, filepath.Join(dir, keys.FileRoot)) {
		t.Errorf("got Secret\n%s", out)
	}
	// `kubectl apply` would keep the values of an earlier enrollment if these fields were missing.
	for _, unset := range []string{"kymaUID", "replace"} {
		if value, exists := secret.StringData[unset]; !exists || value != "" {
			t.Errorf("field %s: got %q, exists %t, want an empty field", unset, value, exists)
		}
	}
	token, err := trust.ParseToken(secret.StringData["token"])
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := keys.Folder{Dir: dir}.TokenSecret()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := issuer.IssueFor(trust.Kyma{Namespace: controlplane.DefaultNamespace, Name: "r-1"}, "r-1",
		token.Expires); err != nil || again.String() != token.String() {
		t.Errorf("the token is not valid for runtime r-1: %v", err)
	}
	for _, private := range []string{keys.FileRootKey, keys.FilePublisherKey, keys.FileTokenKey} {
		if strings.Contains(out, strings.TrimSpace(read(t, filepath.Join(dir, private)))) {
			t.Errorf("the Secret contains %s", private)
		}
	}
}

// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md.
func writeArchive(t *testing.T, dir, component, version string) {
	t.Helper()
	put := func(mediaType string, data []byte) ocispec.Descriptor {
		d := digest.FromBytes(data)
		write(t, filepath.Join(dir, "blobs", "sha256."+d.Encoded()), string(data))
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}
	content := put("application/yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: keda}\n"))
	descriptor := put("application/vnd.ocm.software.component-descriptor.v2+yaml", fmt.Appendf(nil, `meta: {schemaVersion: v2}
component:
  name: %s
  version: %q
  resources:
  - {name: raw-manifest, version: %q, type: yaml, relation: local, access: {type: localBlob, localReference: %q, mediaType: application/yaml}}
`, component, version, version, content.Digest))
	config := put("application/vnd.ocm.software.component.config.v1+json",
		marshal(t, map[string]any{"componentDescriptorLayer": descriptor}))
	manifest := put(ocispec.MediaTypeImageManifest, marshal(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{descriptor, content},
	}))
	write(t, filepath.Join(dir, "artifact-index.json"), string(marshal(t, map[string]any{
		"schemaVersion": 1, "artifacts": []any{
			map[string]any{
				"repository": "component-descriptors/" + component, "tag": version, "digest": manifest.Digest,
			},
		},
	})))
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const catalogYAML = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda, namespace: kcp-system}
spec:
  moduleName: keda
  ocmComponentName: kyma-project.io/module/keda
  channels: [{channel: regular, version: 1.0.0}]
---
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata: {name: keda-1.0.0, namespace: kcp-system}
spec: {moduleName: keda, version: 1.0.0, descriptor: {}}
`
