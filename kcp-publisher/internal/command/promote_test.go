package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/promote"
)

const releasesYAML = `# what the team agreed on
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda}
spec:
  moduleName: keda
  channels:
  - {channel: regular, version: 1.0.0} # since May
  - {channel: fast, version: 2.0.0}
`

func channels(t *testing.T) (*repository, string) {
	t.Helper()
	r := newRepository(t)
	write(t, filepath.Join(r.Dir, "fleet", "keda.yaml"), releasesYAML)
	write(t, filepath.Join(r.Dir, "fleet", "readme.txt"), "text\n")
	hash := r.Commit()
	r.MakeBare()
	return r, hash
}

func (r *repository) at(branch string) (message, file string) {
	r.T.Helper()
	reference, err := r.Git.Reference(plumbing.NewBranchReferenceName(branch), true)
	if err != nil {
		r.T.Fatal(err)
	}
	commit, err := r.Git.CommitObject(reference.Hash())
	if err != nil {
		r.T.Fatal(err)
	}
	found, err := commit.File("fleet/keda.yaml")
	if err != nil {
		r.T.Fatal(err)
	}
	if file, err = found.Contents(); err != nil {
		r.T.Fatal(err)
	}
	return commit.Author.String() + "\n" + commit.Message, file
}

func (r *repository) promote(args ...string) []string {
	return append([]string{"promote", "keda", "--git-url", r.URL(), "--git-path", "fleet", "--from", "fast", "--to",
		"regular", "--author", "Ada Lovelace <ada@example.com>"}, args...)
}

func TestPromoteCommitsOneLineAndSignsOff(t *testing.T) {
	r, _ := channels(t)
	var row promote.Result
	if err := json.Unmarshal([]byte(mustRun(t, r.promote("-o", "json")...)), &row); err != nil {
		t.Fatal(err)
	}
	message, file := r.at("master")
	if want := "Ada Lovelace <ada@example.com>\nPromote keda to 2.0.0 in channel regular\n\nkeda, channel regular: " +
		"1.0.0 -> 2.0.0, promoted from channel fast\n\nSigned-off-by: Ada Lovelace " +
		"<ada@example.com>\n"; message != want {
		t.Errorf("got commit message\n%s\nwant\n%s", message, want)
	}
	if want := strings.Replace(releasesYAML, "1.0.0} # since", "2.0.0} # since", 1); file != want {
		t.Errorf("got file\n%s\nwant\n%s", file, want)
	}
	if row.Commit == "" || row.Branch != "master" || row.From != "1.0.0" || row.To != "2.0.0" {
		t.Errorf("got output %+v, want a commit on branch master", row)
	}
	if again := run(r.promote()...); again.code != cli.ExitDone ||
		!strings.Contains(again.err, "there is nothing to promote: it has version 2.0.0") || again.out != "" {
		t.Errorf("second promotion: got %+v", again)
	}
}

func TestPromoteCreatesAChannelOnlyWithTheFlag(t *testing.T) {
	r, hash := channels(t)
	refused := run(r.promote("--to", "slow")...)
	if head, err := r.Git.Head(); refused.code != cli.ExitFailed || err != nil || head.Hash().String() != hash {
		t.Errorf("without --create: got %+v; master is at %v, %v", refused, head, err)
	}
	mustRun(t, r.promote("--to", "slow", "--create")...)
	message, file := r.at("master")
	if !strings.Contains(message, "Promote keda to 2.0.0 in channel slow\n") ||
		!strings.Contains(file, "{channel: slow, version: 2.0.0}") ||
		!strings.Contains(file, "{channel: regular, version: 1.0.0}") {
		t.Errorf("got commit message\n%s\nfile\n%s", message, file)
	}
}

func TestPromoteDryRunChangesNothing(t *testing.T) {
	r, hash := channels(t)
	out := mustRun(t, r.promote("--dry-run")...)
	for _, want := range []string{"Author: Ada Lovelace <ada@example.com>", "Promote keda to 2.0.0",
		"Signed-off-by: Ada", "--- a/fleet/keda.yaml",
		"-  - {channel: regular, version: 1.0.0} # since May\n+  - {channel: regular, version: 2.0.0} # since May"} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if head, err := r.Git.Head(); err != nil || head.Hash().String() != hash {
		t.Errorf("after a dry run: master is at %v, %v", head, err)
	}
}

func TestPromotePushesToANewBranch(t *testing.T) {
	r, hash := channels(t)
	if out := mustRun(t, r.promote("--branch", "keda-2")...); !strings.Contains(out, "on branch keda-2") {
		t.Errorf("got output\n%s\nwant branch keda-2", out)
	}
	if _, file := r.at("keda-2"); !strings.Contains(file, "regular, version: 2.0.0") {
		t.Errorf("got file\n%s\nwant version 2.0.0 in channel regular", file)
	}
	if head, err := r.Git.Head(); err != nil || head.Hash().String() != hash {
		t.Errorf("after a push to a new branch: master is at %v, %v", head, err)
	}
	if again := run(r.promote("--branch", "keda-2")...); again.code != cli.ExitFailed ||
		!strings.Contains(again.err, "branch keda-2 already exists") {
		t.Errorf("second promotion: got %+v", again)
	}
}

func TestInvalidPromotionsAreRefused(t *testing.T) {
	r, hash := channels(t)
	folder := "file://" + t.TempDir()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"promotion without an author": {
			[]string{"promote", "keda", "--git-url", r.URL(), "--from", "fast", "--to", "regular"}, cli.ExitUsage,
			"--author is required",
		},
		"an author without a name": {
			r.promote("--author", "ada@example.com"), cli.ExitUsage,
			`--author "ada@example.com": must be "NAME <ADDRESS>"`,
		},
		"tag instead of a branch": {
			r.promote("--git-tag", "v1"), cli.ExitUsage, "--git-tag: commits need a branch",
		},
		"folder without a repository": {
			r.promote("--git-url", folder), cli.ExitFailed, "repository does not exist",
		},
		"missing folder in the repository": {r.promote("--git-path", "nowhere"), cli.ExitFailed, "folder nowhere"},
		"source channel without a version": {
			r.promote("--from", "slow"), cli.ExitFailed, "commit " + hash + " of " + r.URL() +
				`: fleet/keda.yaml: line 8: module keda: channel "slow" has no version`,
		},
		"older version": {
			r.promote("--from", "regular", "--to", "fast"), cli.ExitFailed, "do not downgrade to the older version 1.0.0",
		},
		"a signing key without signers": {
			r.promote("--git-signing-key", key), cli.ExitUsage, "--git-signing-key requires --git-signers",
		},
		"an invalid signing key": {
			r.promote("--git-signing-key", key, "--git-signers", key), cli.ExitUsage, "ssh: no key found",
		},
		"two arguments": {
			append(r.promote(), "--", "extra"), cli.ExitUsage, "expected a module, got 2 arguments",
		},
		"missing repository": {
			r.promote("--git-url", r.Dir+"/nowhere"), cli.ExitFailed, "repository does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(c.args...); got.code != c.code || !strings.Contains(got.err, c.want) {
				t.Errorf("got exit code %d\n%s\nwant %s", got.code, got.err, c.want)
			}
		})
	}
	if got := run(append([]string{"promote", "mail"}, r.promote()[2:]...)...); got.code != cli.ExitFailed ||
		!strings.Contains(got.err, "module mail: no ModuleReleaseMeta found") {
		t.Errorf("promote a missing module: got %+v, want an error", got)
	}
}

func TestRunCommandRefusesGitFlagsWithoutRepository(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"branch without a repository":           {[]string{"--git-branch", "main"}, "--git-url is required"},
		"prune all without a repository":        {[]string{"--git-prune-all"}, "--git-url is required"},
		"prune percentage without a repository": {[]string{"--set", "git-prune-percent=20"}, "--git-url is required"},
		"prune count without a repository":      {[]string{"--set", "git-prune-count=0"}, "--git-url is required"},
		"repository with a label selector": {
			[]string{"--git-url", "https://git.example/x", "--watch-label-selector", "shard=one"},
			"run a single publisher without a selector",
		},
		"a password in the URL": {
			[]string{"--git-url", "https://ada:hunter2@git.example/x"}, "--git-url: the URL contains credentials",
		},
		"poll interval of zero": {
			[]string{"--git-url", "https://git.example/x", "--set", "git-poll-interval=0s"},
			"git-poll-interval 0s: must be more than 0",
		},
		"empty folder of credentials": {
			[]string{"--git-url", "https://git.example/x", "--git-credentials", t.TempDir()}, "--git-credentials: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(append([]string{"run", "--location", "registry.example/fleet"}, c.args...)...)
			if got.code != cli.ExitUsage || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "hunter2") {
				t.Errorf("got exit code %d\n%s", got.code, got.err)
			}
		})
	}
}
