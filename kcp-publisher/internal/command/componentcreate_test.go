package command

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/component"
)

const (
	mailerYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: mailer, namespace: kyma-system}
spec:
  template:
    spec:
      initContainers: [{name: prepare, image: "registry.example/mail/prepare:1.0.0@sha256:` + someHash + `"}]
      containers: [{name: mailer, image: "registry.example/mail/mailer:1.2.3@sha256:` + someHash + `"}]
`
	someHash     = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	mailerConfig = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mail, namespace: kyma-system}\n"
)

func rsaKey(t *testing.T) (private, public string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub")
	write(t, private, string(pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
	})))
	write(t, public, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	return private, public
}

func TestCreatedComponentIsVerifiedAndPublished(t *testing.T) {
	module, from := t.TempDir(), t.TempDir()
	write(t, filepath.Join(module, "deploy", "mailer.yaml"), mailerYAML)
	write(t, filepath.Join(module, "config.yaml"), mailerConfig)
	write(t, filepath.Join(module, "README.md"), "for people")
	private, public := rsaKey(t)
	cr := filepath.Join(t.TempDir(), "cr.yaml")
	write(t, cr, "apiVersion: example.org/v1\nkind: Mailer\nmetadata: {name: default}\n")
	ctf := filepath.Join(from, "components.tgz")
	create := func(ctf string) []string {
		return []string{
			"component", "create", "example.org/module/mailer:1.2.3", "--from", module, "--to", "ctf:" + ctf, "--sign",
			private,
			"--module-template", filepath.Join(from, "mailer.yaml"), "--default-cr", cr, "-o", "json",
		}
	}
	var row component.Created
	if err := json.Unmarshal([]byte(mustRun(t, create(ctf)...)), &row); err != nil {
		t.Fatal(err)
	}
	images := []string{
		"registry.example/mail/mailer:1.2.3@sha256:" + someHash,
		"registry.example/mail/prepare:1.0.0@sha256:" + someHash,
	}
	if !slices.Equal(row.Images, images) || row.Signed != "release" || row.Type != "directoryTree" ||
		len(row.Unpinned) != 0 {
		t.Errorf("got component %+v, want a signed directoryTree with pinned images", row)
	}

	t.Run("The same files create the same component", func(t *testing.T) {
		var again component.Created
		if err := json.Unmarshal([]byte(mustRun(t, create(filepath.Join(t.TempDir(), "folder"))...)),
			&again); err != nil ||
			again.Digest != row.Digest {
			t.Errorf("second run: got digest %s, want %s, %v", again.Digest, row.Digest, err)
		}
	})
	t.Run("The signature satisfies a policy", func(t *testing.T) {
		policy := filepath.Join(t.TempDir(), "policy.yaml")
		write(
			t,
			policy,
			"apiVersion: kyma-pull.dev/v1\nkind: SignaturePolicy\nrules:\n- {components: \"*\", required: true, "+
				"signatures: [release], keys: ["+public+"]}\n",
		)
		out := mustRun(t, "component", "verify", "example.org/module/mailer:1.2.3", "--components", ctf,
			"--signature-policy", policy)
		if !strings.Contains(out, "complies with the policy") {
			t.Errorf("component verify: got output %s", out)
		}
		shown := mustRun(t, "component", "show", "example.org/module/mailer:1.2.3", "--components", "ctf:"+ctf)
		for _, want := range []string{"raw-manifest", "directoryTree", "default-cr", "image registry.example/mail/mailer",
			"signed by release"} {
			if !strings.Contains(shown, want) {
				t.Errorf("output does not contain %q:\n%s", want, shown)
			}
		}
	})
	t.Run("The component is published with its ModuleTemplate", func(t *testing.T) {
		write(
			t,
			filepath.Join(from, "meta.yaml"),
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleReleaseMeta\nmetadata: {name: mailer, "+
				"namespace: kcp-system}\n"+
				"spec: {moduleName: mailer, ocmComponentName: example.org/module/mailer, channels: [{channel: "+
				"regular, version: 1.2.3}]}\n",
		)
		write(t, filepath.Join(from, "kyma.yaml"), kymaYAML("one", "r-1", "mailer"))
		rows := publishTo(t, from, filepath.Join(t.TempDir(), "layout"), keyFolder(t))
		if len(rows) != 1 || !slices.Equal(rows[0].Modules, []string{"mailer@1.2.3"}) || rows[0].Problems != nil {
			t.Errorf("got bundles %+v, want one with mailer@1.2.3", rows)
		}
	})
	t.Run("Other content for an existing version is refused", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "folder")
		mustRun(t, create(folder)...)
		mustRun(t, create(folder)...)
		write(t, filepath.Join(module, "config.yaml"), strings.Replace(mailerConfig, "mail,", "other,", 1))
		if o := run(create(folder)...); o.code != cli.ExitFailed ||
			!strings.Contains(o.err, "already exists with other content") {
			t.Errorf("create other content: got %+v, want an error", o)
		}
	})
}

func TestMain(m *testing.M) {
	// component create runs this binary as its child process
	if len(os.Args) == 2 && os.Args[1] == component.RenderCommand {
		if err := render.Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == moduleinput.UsedCommand {
		os.Exit(Execute("v0.0.0-test", os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestChartValuesAreRenderedAndBecomePartOfTheComponent(t *testing.T) {
	chart, values := t.TempDir(), t.TempDir()
	write(t, filepath.Join(chart, "Chart.yaml"), "apiVersion: v2\nname: mailer\nversion: 1.0.0\n")
	write(t, filepath.Join(chart, "values.yaml"), "hook: pre-upgrade\nnames: {first: a, second: b}\n")
	write(
		t,
		filepath.Join(chart, "templates", "all.yaml"),
		"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ required \"name it\" .Values.name }}\n  annotations: "+
			"{helm.sh/hook: {{ .Values.hook }}}\n",
	)
	one, two := filepath.Join(values, "one.yaml"), filepath.Join(values, "two.yaml")
	write(t, one, "hook: post-install\nname: x\nnames: &names {first: c}\nmore: *names\n")
	write(t, two, "names: {third: d}\n")
	archive := filepath.Join(t.TempDir(), "out")
	create := func(args ...string) outcome {
		return run(
			append(
				[]string{"component", "create", "example.org/mailer:1.0.0", "--from", chart, "--to", "ctf:" + archive},
				args...)...)
	}
	if o := create(); o.code != cli.ExitFailed || !strings.Contains(o.err, "name it") {
		t.Errorf("without values: got %+v, want the error of the chart", o)
	}
	if o := create("--set", "name=x"); o.code != cli.ExitFailed ||
		!strings.Contains(o.err, "a Job with hook pre-upgrade") {
		t.Errorf("with one value: got %+v, want an error about the hook", o)
	}
	if o := create("--values", one, "--values", two, "--set", "name=zed,list={a,b}"); o.code != 0 {
		t.Fatalf("with all values: got %+v", o)
	}
	shown := mustRun(t, "component", "show", "example.org/mailer:1.0.0", "--components", "ctf:"+archive, "-o", "json")
	if !strings.Contains(shown, `"config"`) {
		t.Errorf("the component does not contain the values: %s", shown)
	}
	for name, c := range map[string]struct{ text, want string }{
		"a list instead of a mapping": {"[a]", "is not a mapping of values"},
		"a duplicate key":             {"a: 1\na: 2\n", `key "a" appears twice`},
		"several documents":           {"a: 1\n---\nb: 1\n", "more than 1 documents"},
	} {
		bad := filepath.Join(values, "bad.yaml")
		write(t, bad, c.text)
		if o := create("--values", bad); o.code != cli.ExitUsage || !strings.Contains(o.err, bad) ||
			!strings.Contains(o.err, c.want) {
			t.Errorf("%s: got %+v", name, o)
		}
	}
	if o := create("--set", "a[999999999999]=x"); o.code != cli.ExitUsage {
		t.Errorf("--set with a huge list: got %+v", o)
	}
}

// An agent would not use the digest of --image if the component also listed the image without a digest.
func TestImageFlagDigestPinsTheImageInTheManifest(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "mailer.yaml"), strings.ReplaceAll(mailerYAML, "@sha256:"+someHash, ""))
	var row component.Created
	pinned := "registry.example/mail/mailer:1.2.3@sha256:" + someHash
	if err := json.Unmarshal([]byte(mustRun(t, "component", "create", "example.org/module/mailer:1.2.3", "--from", module,
		"--to", "ctf:"+filepath.Join(t.TempDir(), "out"), "--image", pinned, "-o", "json")), &row); err != nil {
		t.Fatal(err)
	}
	unpinned := "registry.example/mail/prepare:1.0.0"
	if !slices.Equal(row.Images, []string{pinned, unpinned}) || !slices.Equal(row.Unpinned, []string{unpinned}) {
		t.Errorf("got images %v, unpinned %v", row.Images, row.Unpinned)
	}
}

func TestComponentCreateListsUnknownFields(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "config.yaml"), strings.Replace(mailerConfig, "metadata: {", "metadata: {labls: {}, ", 1))
	out := mustRun(t, "component", "create", "example.org/mailer:1.0.0", "--from", module, "--to",
		"ctf:"+filepath.Join(t.TempDir(), "out"))
	want := `ignored  ConfigMap kyma-system/mail: unknown field "metadata.labls": correct or remove the field`
	if !strings.Contains(out, want) {
		t.Errorf("got output %s, want %q", out, want)
	}
}

func TestComponentCreateRefusesInvalidInput(t *testing.T) {
	good, chart := t.TempDir(), t.TempDir()
	write(t, filepath.Join(good, "mailer.yaml"), strings.ReplaceAll(mailerYAML, "@sha256:"+someHash, ""))
	write(t, filepath.Join(chart, "Chart.yaml"), "apiVersion: v2\nname: mailer\n")
	private, public := rsaKey(t)
	bad, plain, upgrading, endless, deploying := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	twoDigests := []string{
		"--image", "registry.example/mail/mailer:1.2.3@sha256:" + strings.Repeat("0", 64),
		"--image", "registry.example/mail/mailer:1.2.3@sha256:" + strings.Repeat("1", 64),
	}
	for dir, template := range map[string]string{
		upgrading: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, annotations: {helm.sh/hook: pre-upgrade}}\n",
		deploying: mailerYAML,
		endless:   `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
	} {
		write(t, filepath.Join(dir, "Chart.yaml"), "apiVersion: v2\nname: mailer\nversion: 1.0.0\n")
		write(t, filepath.Join(dir, "templates", "all.yaml"), template)
	}
	write(t, filepath.Join(plain, "config.yaml"), mailerConfig)
	review := filepath.Join(t.TempDir(), "review.yaml")
	write(t, review, "apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nmetadata: {name: question}\n")
	misspelled := filepath.Join(filepath.Dir(review), "misspelled.yaml")
	write(t, misspelled, "apiVersion: v1\nkind: configmap\nmetadata: {name: a}\n")
	key := filepath.Join(filepath.Dir(review), "key.yaml")
	write(t, key, "apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key}\n")
	owned := filepath.Join(filepath.Dir(review), "owned.yaml")
	write(t, owned, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"+
		"  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: b, uid: c}]\n")
	kyma := filepath.Join(filepath.Dir(review), "kyma.yaml")
	write(t, kyma, "apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: default}\n")
	write(t, filepath.Join(bad, "deep", "a.yaml"), mailerConfig+"---\nkind: ConfigMap\nmetadata: {name: b}\n")
	to := func() string { return "ctf:" + filepath.Join(t.TempDir(), "out") }
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a component without a version": {
			[]string{"example.org/module/mailer", "--from", good, "--to", to()}, cli.ExitUsage, "must be NAME:VERSION",
		},
		"a name without a domain": {
			[]string{"mailer:1.0.0", "--from", good, "--to", to()}, cli.ExitUsage,
			`component name "mailer": must be DOMAIN/PATH`,
		},
		"no destination": {
			[]string{"example.org/mailer:1.0.0", "--from", good}, cli.ExitUsage, "--to is required",
		},
		"an empty folder": {
			[]string{"example.org/mailer:1.0.0", "--from", t.TempDir(), "--to", to()}, cli.ExitFailed,
			"contains no Chart.yaml, kustomization or YAML file",
		},
		"a missing folder": {
			[]string{"example.org/mailer:1.0.0", "--from", "/nowhere", "--to", to()}, cli.ExitFailed,
			"--from: stat /nowhere",
		},
		"a document without apiVersion": {
			[]string{"example.org/mailer:1.0.0", "--from", bad, "--to", to()}, cli.ExitFailed,
			"every agent would refuse the content: deep/a.yaml, document 2: object without apiVersion",
		},
		"an object that is not stored": {
			[]string{"example.org/mailer:1.0.0", "--from", review, "--to", to()}, cli.ExitFailed,
			"TokenReview question (authentication.k8s.io/v1): the API server does not store objects of this kind",
		},
		"a misspelled kind": {
			[]string{"example.org/mailer:1.0.0", "--from", misspelled, "--to", to()}, cli.ExitFailed,
			"misspelled.yaml, document 1, configmap a (v1): field kind must be spelled ConfigMap",
		},
		"an object that belongs to the agent": {
			[]string{"example.org/mailer:1.0.0", "--from", key, "--to", to()}, cli.ExitFailed,
			"every agent would refuse the content: Secret kyma-system/skr-agent-key: ",
		},
		"an object with an owner": {
			[]string{"example.org/mailer:1.0.0", "--from", owned, "--to", to()}, cli.ExitFailed,
			"ownerReferences",
		},
		"a default CR that controls the agent": {
			[]string{"example.org/mailer:1.0.0", "--from", plain, "--default-cr", kyma, "--module-template",
				filepath.Join(t.TempDir(), "template.yaml"), "--to", to()}, cli.ExitFailed,
			"objects of this kind control the agent",
		},
		"an invalid module name": {
			[]string{"example.org/module/hpa2:1.0.0", "--from", plain, "--to", to()}, cli.ExitUsage,
			`"hpa2", is not a valid module name`,
		},
		"an invalid version for a ModuleTemplate": {
			[]string{"example.org/mailer:1.0.0-rc.1", "--from", plain, "--to", to(), "--module-template", "x"},
			cli.ExitUsage, "--module-template: spec.version",
		},
		"values without a chart": {
			[]string{"example.org/mailer:1.0.0", "--from", plain, "--to", to(), "--set", "a=b"}, cli.ExitUsage,
			"only a chart has values",
		},
		"an overlay that references a folder outside": {
			[]string{"example.org/mailer:1.0.0", "--from", filepath.Join("testdata", "overlay-that-leaves", "default"),
				"--to", to()}, cli.ExitFailed,
			"../base is outside of the content: package the parent folder with a kustomization.yaml",
		},
		"a Job with an upgrade hook": {
			[]string{"example.org/mailer:1.0.0", "--from", upgrading, "--to", to()}, cli.ExitFailed,
			"Job x: the agent does not run a Job with hook pre-upgrade",
		},
		"a chart with endless recursion": {
			[]string{"example.org/mailer:1.0.0", "--from", endless, "--to", to()}, cli.ExitFailed,
			"would refuse the content: chart mailer: ",
		},
		"an invalid chart": {
			[]string{"example.org/mailer:1.0.0", "--from", chart, "--to", to()}, cli.ExitFailed, "version",
		},
		"a public key for --sign": {
			[]string{"example.org/mailer:1.0.0", "--from", plain, "--to", to(), "--sign", public}, cli.ExitUsage,
			"is not an unencrypted RSA private key",
		},
		"an image in an unreachable registry": {
			[]string{"example.org/mailer:1.0.0", "--from", plain, "--to", to(), "--sign", private, "--image",
				"127.0.0.1:1/mailer:1"}, cli.ExitFailed, "read the digest for the signature from the registry",
		},
		"an invalid image reference": {
			[]string{"example.org/mailer:1.0.0", "--from", good, "--to", to(), "--image", "a b"}, cli.ExitUsage,
			`image "a b"`,
		},
		"two digests of a manifest's image": {
			append([]string{"example.org/mailer:1.0.0", "--from", good, "--to", to()}, twoDigests...), cli.ExitFailed,
			"containers[0].image: image registry.example/mail/mailer:1.2.3 matches both ",
		},
		"two digests of a chart's image": {
			append([]string{"example.org/mailer:1.0.0", "--from", deploying, "--to", to()}, twoDigests...), cli.ExitFailed,
			"containers[0].image: image registry.example/mail/mailer:1.2.3@sha256:" + someHash + " matches both ",
		},
		"digest that differs from the one in a chart": {
			append([]string{"example.org/mailer:1.0.0", "--from", deploying, "--to", to()}, twoDigests[:2]...), cli.ExitFailed,
			"has a different digest than registry.example/mail/mailer:1.2.3@sha256:" + strings.Repeat("0", 64),
		},
		"a default CR without a ModuleTemplate": {
			[]string{"example.org/mailer:1.0.0", "--from", good, "--to", to(), "--default-cr", "x"}, cli.ExitUsage,
			"requires --module-template FILE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(append([]string{"component", "create"}, c.args...)...)
			if o.code != c.code || !strings.Contains(o.err, c.want) {
				t.Errorf("got %+v\nwant exit code %d with %s", o, c.code, c.want)
			}
		})
	}
}

func TestChartIsCheckedWithCapabilitiesFromFlags(t *testing.T) {
	chart := t.TempDir()
	write(t, filepath.Join(chart, "Chart.yaml"),
		"apiVersion: v2\nname: mailer\nversion: 1.0.0\nkubeVersion: '>= 1.90.0-0'\n")
	write(t, filepath.Join(chart, "templates", "all.yaml"),
		`{{ if not (.Capabilities.APIVersions.Has "example.org/v1/Mail") }}{{ fail "Mail is required" }}{{ end }}`+"\n"+
			mailerConfig)
	create := func(flags ...string) outcome {
		return run(append([]string{"component", "create", "example.org/mailer:1.0.0", "--from", chart, "--to",
			"ctf:" + filepath.Join(t.TempDir(), "out")}, flags...)...)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "the chart requires Kubernetes >= 1.90.0-0"},
		{
			[]string{"--kube-version", "1.91"},
			"an agent with these capabilities (1.91, Kubernetes' own APIs) would refuse the content",
		},
		{[]string{"--kube-version", "1.91", "--api-versions", "other.org/v1"}, "Kubernetes' own APIs and other.org/v1)"},
		{[]string{"--kube-version", "x"}, "parse the Kubernetes version"},
	} {
		if o := create(c.flags...); o.code != cli.ExitFailed || !strings.Contains(o.err, c.want) {
			t.Errorf("%v: got %+v\nwant an error with %s", c.flags, o, c.want)
		}
	}
	if o := create("--kube-version", "1.91", "--api-versions", "example.org/v1,example.org/v1/Mail"); o.code != 0 {
		t.Errorf("got %+v, want the chart to be accepted", o)
	}
}
