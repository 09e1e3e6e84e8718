package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

const kedaVersion = "kyma-project.io/module/keda:1.0.0"

func TestComponentShowAndCopySupportEveryArchiveFormat(t *testing.T) {
	from := filepath.Join(t.TempDir(), "archive")
	writeArchive(t, from, "kyma-project.io/module/keda", "1.0.0")
	first := mustRun(t, "component", "show", kedaVersion, "--components", from)
	for _, want := range []string{kedaVersion, "raw-manifest", "localBlob application/yaml", "not signed"} {
		if !strings.Contains(first, want) {
			t.Errorf("output does not contain %q:\n%s", want, first)
		}
	}
	for _, name := range []string{"copy.tgz", "copy.tar", "copy"} {
		to := filepath.Join(t.TempDir(), name)
		if out := mustRun(t, "component", "copy", kedaVersion, "--components", from, "--to", "ctf:"+to); out != "copied "+
			kedaVersion+" to "+to+"\n" {
			t.Errorf("component copy printed %q", out)
		}
		if again := mustRun(t, "component", "show", kedaVersion, "--components", to); again != first {
			t.Errorf("%s shows\n%s\nwant\n%s", name, again, first)
		}
		if strings.Contains(name, ".") {
			if o := run("component", "copy", kedaVersion, "--components", from, "--to",
				"ctf:"+to); o.code != cli.ExitFailed {
				t.Errorf("%s was overwritten without --replace: %+v", name, o)
			}
			mustRun(t, "component", "copy", kedaVersion, "--components", from, "--to", "ctf:"+to, "--replace")
		}
		from = to
	}
	if out := mustRun(t, "component", "show", kedaVersion, "--components", from, "-o", "json"); !strings.Contains(out,
		`"schemaVersion": "v2"`) {
		t.Errorf("got document\n%s\nwant schemaVersion v2", out)
	}
}

func TestComponentVerifyAppliesThePolicy(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "archive")
	writeArchive(t, archive, "kyma-project.io/module/keda", "1.0.0")
	policy := func(rule string) string {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		write(t, path, "apiVersion: "+bundle.APIVersion+"\nkind: SignaturePolicy\nrules:\n- "+rule+"\n")
		return path
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"the policy requires no signature": {
			[]string{"verify", kedaVersion, "--signature-policy", policy(`{components: "*", required: false}`)},
			cli.ExitDone, kedaVersion + " complies with the policy",
		},
		"a required signature is missing": {
			[]string{"verify", kedaVersion, "--signature-policy", policy(`{components: "*", required: true}`)},
			cli.ExitRefused, "not signed",
		},
		"no rule matches the component": {
			[]string{"verify", kedaVersion, "--signature-policy", policy("{components: a.io/*, required: false}")},
			cli.ExitRefused, "no rule of the signature policy",
		},
		"verify without a policy": {[]string{"verify", kedaVersion}, cli.ExitUsage, "--signature-policy is required"},
		"a missing policy file": {
			[]string{"verify", kedaVersion, "--signature-policy", "/nowhere"}, cli.ExitUsage, "--signature-policy: ",
		},
		"a component without a version": {
			[]string{"show", "kyma-project.io/module/keda"}, cli.ExitUsage, "must be NAME:VERSION",
		},
		"an unknown version": {
			[]string{"show", "kyma-project.io/module/keda:2.0.0"}, cli.ExitFailed, "component version not found",
		},
		"copy without a destination": {[]string{"copy", kedaVersion}, cli.ExitUsage, "--to is required"},
		"an invalid cache size": {
			[]string{"show", kedaVersion, "--component-cache", filepath.Join(dir, "cache"), "--component-cache-size",
				"big"}, cli.ExitUsage, `component-cache-size "big"`,
		},
		"a folder without an archive": {[]string{"show", kedaVersion, "--components", dir}, cli.ExitFailed, dir},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(append([]string{"component"}, append(c.args, "--components", archive)...)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v, want exit code %d with %q", o, c.code, c.want)
			}
		})
	}
	t.Run("changed content is refused", func(t *testing.T) {
		blobs, err := filepath.Glob(filepath.Join(archive, "blobs", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range blobs {
			if data, err := os.ReadFile(path); err == nil &&
				strings.HasPrefix(string(data), "apiVersion: v1\nkind: ConfigMap") {
				write(t, path, strings.Replace(string(data), "keda", "evil", 1))
			}
		}
		o := run("component", "verify", kedaVersion, "--components", archive, "--signature-policy",
			policy(`{components: "*", required: false}`))
		if o.code == cli.ExitDone {
			t.Errorf("verify an archive with changed content: got %+v, want an error", o)
		}
	})
}

func TestPublishIncludesWatchersFromTheFolder(t *testing.T) {
	from, layout, keys := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	watcher := func(resource string) string {
		return "apiVersion: operator.kyma-project.io/v1beta2\nkind: Watcher\nmetadata: {name: w}\nspec:\n  " +
			"serviceInfo: {name: s, namespace: n, port: 80}\n" +
			"  resourceToWatch: {group: '', version: v1, resource: " + resource +
			"}\n  field: spec\n  gateway: {selector: {}}\n"
	}
	first := publishTo(t, from, layout, keys)
	write(t, filepath.Join(from, "watcher.yaml"), watcher("configmaps"))
	second := publishTo(t, from, layout, keys)
	if second[0].Action != "pushed" || second[0].Digest == first[0].Digest {
		t.Errorf("a new watcher did not change the bundle: %+v", second)
	}
	write(t, filepath.Join(from, "watcher.yaml"), watcher("secrets"))
	if o := run("publish", "--from", from, "--to", "oci-layout:"+layout, "--keys", keys); o.code != cli.ExitFailed ||
		!strings.Contains(o.err, "secrets cannot be watched") {
		t.Errorf("publish an invalid Watcher: got %+v, want an error", o)
	}
}

func TestComponentRolePrintsModulePermissions(t *testing.T) {
	from := filepath.Join(t.TempDir(), "archive")
	writeArchive(t, from, "kyma-project.io/module/keda", "1.0.0")
	out := mustRun(t, "component", "role", kedaVersion, "--components", from)
	for _, want := range []string{
		"# " + kedaVersion + "\n",
		"kind: ClusterRole\n",
		"kind: ClusterRoleBinding\n",
		"  - configmaps\n",
		"name: skr-agent\n",
		"name: skr-agent-module-set\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if out := mustRun(t, "component", "role", kedaVersion, "--components", from, "--service-account", "keda/installer",
		"--name", "keda"); !strings.Contains(out, "name: installer\n  namespace: keda\n") {
		t.Errorf("output does not contain the service account:\n%s", out)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a component without a version": {
			[]string{"kyma-project.io/module/keda"}, cli.ExitUsage, "must be NAME:VERSION",
		},
		"a service account without a namespace": {
			[]string{kedaVersion, "--service-account", "installer"},
			cli.ExitUsage,
			"--service-account",
		},
		"an invalid name": {[]string{kedaVersion, "--name", "My Role"}, cli.ExitUsage, "--name"},
		"an unknown version": {
			[]string{"kyma-project.io/module/keda:2.0.0"},
			cli.ExitFailed,
			"component version not found",
		},
		"no components": {nil, cli.ExitUsage, "NAME:VERSION"},
	} {
		if o := run(
			append([]string{"component", "role", "--components", from}, c.args...)...,
		); o.code != c.code || !strings.Contains(o.err, c.want) {
			t.Errorf("%s: got %+v, want exit code %d with %q", name, o, c.code, c.want)
		}
	}
}
