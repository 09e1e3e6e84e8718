package scenario

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

func TestControlPlaneAndRuntimesFollowACommit(t *testing.T) {
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	files["fleet/kymas/one.yaml"] = kymaOf("one", "scaler", "mailer")
	files["fleet/kymas/two.yaml"] = kymaOf("two", "mailer")
	first := repo.push(files)
	metrics := freeAddress(t)
	flags := append(repo.pageFlags(), "--metrics-bind-address", metrics, "--metrics-auth=false")
	f := startFollowing(t, flags)
	untilCommit(t, f, first)
	byHand := fleet.NewKyma("by-hand", "regular", "mailer")
	must(t, f.Control.Create(ctx, byHand))

	r, err := f.AddRuntime(ctx, "one", "regular")
	must(t, err)
	t.Run("modules of a commit are installed and bundles name the commit", func(t *testing.T) {
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
		must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		for object, version := range versions(t, f) {
			if object != "Kyma by-hand" && !strings.HasSuffix(version, first) {
				t.Errorf("object %s has unexpected version %s", object, version)
			}
		}
		if got := bundleSource(t, f, "one"); got != first {
			t.Errorf("the bundle names commit %s, want %s", got, first)
		}
		var entries v1beta2.ModuleTemplateList
		must(t, r.API.List(ctx, &entries))
		for _, e := range entries.Items {
			if e.Annotations[v1beta2.AnnotationGitCommit] != "" {
				t.Errorf("ModuleTemplate %s in the runtime has a commit annotation", e.Name)
			}
		}
	})

	page := blocksOf(t, "docs/guides/git.md", 4)
	sh := newPlainShell(t, f.Dir, f.Binaries(), "https://git.example/kyma/fleet.git", repo.url, "~/fleet-git",
		repo.credentials)
	promote := strings.TrimSpace(page[2])
	t.Run("diff of a review branch reports changes without applying them", func(t *testing.T) {
		before := versions(t, f)
		sh.run(promote + " --branch scaler-1.8")
		output := sh.run(strings.TrimSpace(page[3]) + " --git-credentials " + repo.credentials)
		// The first line of the page's sample output contains the commit.
		_, sample, _ := strings.Cut(blockAfter(t, "docs/guides/git.md", "Preview a commit", "text"), "\n")
		if !strings.HasPrefix(output, "commit ") || !strings.Contains(output, sample) {
			t.Errorf("docs/guides/git.md shows\n%s\nbut the program prints:\n%s", sample, output)
		}
		repo.git("fetch", "--quiet")
		repo.git("checkout", "--quiet", "-b", "waves", "origin/scaler-1.8")
		repo.write(map[string]string{
			"fleet/slow.yaml": "apiVersion: fleet.kyma-project.io/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: " +
				"slow}\nspec:\n  waves:\n  - {name: all, percent: 100, approval: true}\n",
		})
		repo.git("add", "-A")
		repo.git("commit", "--quiet", "-m", "wait")
		repo.git("push", "--quiet", "origin", "waves")
		repo.git("checkout", "--quiet", "main")
		output, err := f.Ask(ctx, "diff", "--from", repo.url, "--git-branch", "waves", "--git-path", "fleet",
			"--git-credentials", repo.credentials, "--exit-code")
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("diff of a commit that changes the control plane: %v", err)
		}
		for _, want := range []string{
			"  create  RolloutPolicy slow  fleet/slow.yaml:1\n",
			"  begin   Rollout scaler-regular-1 by policy slow: all 1 after approval\n",
			"rollout scaler-regular-1 holds version 1.8.0: wave all",
		} {
			if !strings.Contains(output, want) {
				t.Errorf("output does not contain %q:\n%s", want, output)
			}
		}
		output, err = f.Ask(ctx, "diff", "--from", filepath.Join(repo.dir, "fleet"), "--exit-code")
		if err != nil || !strings.Contains(output, "no objects differ from the control plane") ||
			!strings.Contains(output, "0 of 3 runtimes would change") {
			t.Errorf("diff of the current commit: %v\n%s", err, output)
		}
		if after := versions(t, f); !maps.Equal(before, after) || record(t, f)["commit"] != first {
			t.Errorf("diff changed objects: before\n%v\nafter\n%v", before, after)
		}
	})

	var promoted string
	t.Run("promote command commits and updates the runtime", func(t *testing.T) {
		output := sh.run(promote)
		must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		repo.git("pull", "--quiet")
		promoted = repo.git("rev-parse", "HEAD")
		untilCommit(t, f, promoted)
		if got := bundleSource(t, f, "one"); got != promoted || !strings.Contains(output, promoted) {
			t.Errorf("the bundle names commit %s, want %s; the command printed\n%s", got, promoted, output)
		}
		provenance, code := fleet.Run(ctx, f.Binaries().Agent, "provenance", "cm/scaler-settings", "-n",
			v1beta2.RuntimeNamespace, "--kubeconfig", r.Kubeconfig())
		if code != 0 || !strings.Contains(provenance, "source     commit "+promoted+" of ") {
			t.Errorf("provenance of a runtime object does not name commit %s: exit code %d\n%s", promoted, code,
				provenance)
		}
		why, err := f.Why(ctx, "one", "scaler", "--location", f.Location(), "--trust",
			filepath.Join(f.Keys(), "root.json"))
		if err != nil || !strings.Contains(why, "source     commit "+promoted+" of ") {
			t.Errorf("why does not name commit %s: %v\n%s", promoted, err, why)
		}
		for _, want := range []string{"kyma_pull_publisher_git_ready 1",
			`kyma_pull_publisher_git_commit_info{commit="` + promoted + `"} 1`} {
			if text := scraped(t, metrics, "kyma_pull_publisher_git_"); !strings.Contains(text, want) ||
				strings.Count(text, "git_commit_info{") != 1 {
				t.Errorf("output does not contain %s:\n%s", want, text)
			}
		}
		if diff := repo.git("show", "--stat", "--format=%B"); !strings.Contains(diff,
			"1 file changed, 1 insertion(+), 1 deletion(-)") ||
			!strings.Contains(diff, "Signed-off-by: Ada <ada@example.com>") {
			t.Errorf("unexpected commit:\n%s", diff)
		}
		if v := versions(t, f); !strings.HasSuffix(v["ModuleReleaseMeta scaler"], promoted) ||
			!strings.HasSuffix(v["Kyma one"], first) {
			t.Errorf("only the changed object must have the new commit, got %v", v)
		}
	})

	t.Run("broken commit does not change objects, and its file and field are reported", func(t *testing.T) {
		before := versions(t, f)
		good := strings.Replace(kymaOf("two", "mailer"), "channel: regular", "channel: fast", 1)
		repo.push(map[string]string{
			"fleet/kymas/two.yaml": good, "fleet/kymas/three.yaml": "# new\n" +
				strings.Replace(kymaOf("three"), "channel:", "chanel:", 1),
		})
		untilCommitRefused(t, f, before, `spec.chanel: unknown field`)
		repo.push(map[string]string{
			"fleet/kymas/three.yaml": "# new\n" + strings.Replace(kymaOf("three"), "name: three", "name: Three!", 1),
		})
		untilCommitRefused(t, f, before, `metadata.name: "Three!": `)
		until(t, 10*time.Second, "an Event reports the refused commit", func() (bool, string) {
			var events corev1.EventList
			err := f.Control.List(ctx, &events, client.InNamespace(sample.Namespace))
			for _, e := range events.Items {
				if e.Reason == "CommitRefused" && e.InvolvedObject.Name == "kyma-pull-git" {
					return true, ""
				}
			}
			return false, fmt.Sprint(len(events.Items), err)
		})
		repo.git("reset", "--quiet", "--hard", promoted)
		repo.git("push", "--quiet", "--force", "origin", "main")
		untilCommit(t, f, promoted)
		if after := versions(t, f); !maps.Equal(before, after) {
			t.Errorf("reverting the broken commit changed objects: before\n%v\nafter\n%v", before, after)
		}
	})

	t.Run("commit without the fleet folder or without any Kyma is refused", func(t *testing.T) {
		before := versions(t, f)
		repo.git("mv", "fleet", "moved")
		repo.push(nil)
		untilCommitRefused(t, f, before, "folder fleet")
		repo.git("mv", "moved", "fleet")
		repo.push(map[string]string{"fleet/kymas/one.yaml": "", "fleet/kymas/two.yaml": ""})
		untilCommitRefused(t, f, before, "the commit removes all 2 Kymas of earlier commits")
	})

	t.Run("only objects removed from Git are deleted", func(t *testing.T) {
		hash := repo.push(map[string]string{
			"fleet/kymas/one.yaml": kymaOf("one", "scaler"), "fleet/releases/mailer.yaml": "",
			"fleet/modules/mailer-1.0.0.yaml": "",
		})
		untilCommit(t, f, hash)
		until(t, 30*time.Second, "Kyma two is deleted", func() (bool, string) {
			err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "two"}, &v1beta2.Kyma{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		v := versions(t, f)
		if len(v) != 5 || v["Kyma by-hand"] == "" || v["Kyma one"] == "" {
			t.Errorf("unexpected remaining objects: %v", v)
		}
	})

	t.Run("rewound branch requires --allow-rewind, and runtimes keep newer versions", func(t *testing.T) {
		before := versions(t, f)
		repo.git("reset", "--quiet", "--hard", first)
		repo.git("push", "--quiet", "--force", "origin", "main")
		untilCommitRefused(t, f, before, "--allow-rewind")
		must(t, f.RestartPublisher(append(flags, "--set", "git-poll-interval=500ms", "--allow-rewind")...))
		untilCommit(t, f, first)
		until(t, 60*time.Second, "the runtime keeps scaler 1.8.0 and reports the reason", func() (bool, string) {
			record, err := r.Record(ctx)
			must(t, err)
			m := moduleOf(record, "scaler")
			return m.Version == "1.8.0" && strings.Contains(m.Message, `channel "regular" has 1.7.0, which is older`),
				fmt.Sprint(m)
		})
	})

	t.Run("restarted publisher applies missed commits once", func(t *testing.T) {
		f.Publisher().Kill()
		repo.git("reset", "--quiet", "--hard", promoted)
		repo.git("push", "--quiet", "--force", "origin", "main")
		record, err := r.Record(ctx)
		must(t, err)
		before := record.DeepCopy()
		record.Spec.Channel = "fast"
		must(t, f.Control.Patch(ctx, record, client.MergeFrom(before)))
		// Simulate a publisher that stopped during a commit.
		noted := &corev1.ConfigMap{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "kyma-pull-git"}, noted))
		noted.Data["applying"] = promoted
		must(t, f.Control.Update(ctx, noted))
		must(t, f.StartPublisher())
		untilCommit(t, f, promoted)
		must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		if record, err = r.Record(ctx); err != nil || record.Spec.Channel != "regular" {
			t.Errorf("manual change of the channel was not reverted: %q, %v", record.Spec.Channel, err)
		}
		untilQuiet(t, f)
		again := versions(t, f)
		f.Publisher().Kill()
		must(t, f.StartPublisher())
		untilQuiet(t, f)
		if after := versions(t, f); !maps.Equal(again, after) {
			t.Errorf("a restart changed objects: before\n%v\nafter\n%v", again, after)
		}
	})

	t.Run("publisher uses only permissions from its chart", func(t *testing.T) {
		rights, err := f.PublisherRights()
		must(t, err)
		lacksNothing(t, "publisher", rights)
	})
}

func TestOnlyCommitsFromTrustedSignersAreApplied(t *testing.T) {
	for _, program := range []string{"ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: cannot generate keys", program)
		}
	}
	ctx, repo, dir := t.Context(), newRepository(t), t.TempDir()
	key := func(name string) string {
		path := filepath.Join(dir, name)
		output, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).
			CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return path
	}
	ada, eve := key("ada"), key("eve")
	public, err := os.ReadFile(ada + ".pub")
	must(t, err)
	signers := filepath.Join(dir, "signers")
	must(t, os.WriteFile(signers, append([]byte("ada@example.com "), public...), 0o600))
	signedBy := func(key string) []string {
		return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key, "-c", "commit.gpgsign=true"}
	}
	// A repository on this machine, without a server.
	source := []string{"--git-url", "file://" + repo.bare, "--git-path", "fleet", "--git-signers", signers}

	files := catalogOf(t)
	files["fleet/kymas/one.yaml"] = kymaOf("one", "scaler")
	first := repo.push(files, signedBy(ada)...)
	f := startFollowing(t, source)
	untilCommit(t, f, first)
	if who := record(t, f)["signedBy"]; who != "ada@example.com" {
		t.Errorf("got signer %q, want ada@example.com", who)
	}
	before := versions(t, f)
	promote := append([]string{"promote", "scaler", "--from", "fast", "--to", "regular", "--author",
		"Ada <ada@example.com>"}, source...)

	repo.push(map[string]string{"fleet/kymas/one.yaml": kymaOf("one", "scaler", "mailer")}, signedBy(eve)...)
	untilCommitRefused(t, f, before, "is not signed by an allowed signer")
	repo.push(map[string]string{"fleet/kymas/one.yaml": kymaOf("one", "mailer")})
	untilCommitRefused(t, f, before, "is not signed")
	if output, code := fleet.Run(ctx, f.Binaries().Publisher, promote...); code != 1 ||
		!strings.Contains(output, "is not signed") {
		t.Errorf("promotion on top of an unsigned commit: exit code %d, want 1\n%s", code, output)
	}

	repo.git("reset", "--quiet", "--hard", first)
	repo.git("push", "--quiet", "--force", "origin", "main")
	if output, code := fleet.Run(ctx, f.Binaries().Publisher, append(promote, "--git-signing-key", ada)...); code != 0 {
		t.Fatalf("promotion with a signing key: exit code %d\n%s", code, output)
	}
	repo.git("pull", "--quiet")
	untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	meta := &v1beta2.ModuleReleaseMeta{}
	must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "scaler"}, meta))
	if got := meta.Spec.Channels[0]; got != sample.Channel("regular", "1.8.0") {
		t.Errorf("got channel %+v, want regular with 1.8.0", got)
	}
}
