package command

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git/gittest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

type repository struct{ *gittest.Repository }

func newRepository(t *testing.T) *repository { return &repository{gittest.New(t)} }

func lastSource(t *testing.T, layout, keyDir, runtime string) *bundle.Source {
	t.Helper()
	root, err := keys.Folder{Dir: keyDir}.Root()
	if err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(store.LayoutScheme+layout, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := readBundle(t, place, runtime, root)
	if last == nil {
		t.Fatalf("runtime %s has no bundle", runtime)
	}
	return last.Statement.Predicate.Source
}

// readBundle reads and verifies a runtime's bundle. It returns nil if the runtime does not have a bundle.
func readBundle(t *testing.T, place store.Store, runtime string, root trust.Root) *bundle.Bundle {
	t.Helper()
	repository, err := place.Repository(t.Context(), bundle.DesiredRepository(runtime))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := store.Fetch(t.Context(), repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	verified, err := bundle.Adopt(manifest, runtime, root)
	if err != nil {
		t.Fatal(err)
	}
	complete, err := store.FetchBundle(t.Context(), repository, verified)
	if err != nil {
		t.Fatal(err)
	}
	return &complete
}

func TestPublishRecordsTheCommitThatChangedABundle(t *testing.T) {
	r, layout, keyDir := newRepository(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	if err := os.CopyFS(filepath.Join(r.Dir, "fleet"), os.DirFS(fleetFolder(t))); err != nil {
		t.Fatal(err)
	}
	first := r.Commit()
	args := []string{
		"publish", "--from", r.URL(), "--git-path", "fleet", "--to", "oci-layout:" + layout, "--keys", keyDir,
		"--allow-unresolved",
	}
	if out := mustRun(t, args...); !strings.Contains(out, "pushed") {
		t.Fatalf("got output\n%s\nwant a pushed bundle", out)
	}
	if source := lastSource(t, layout, keyDir, "r-1"); source == nil || source.Commit != first ||
		source.Repository != r.URL() {
		t.Errorf("first bundle: got source %+v, want commit %s", source, first)
	}
	write(t, filepath.Join(r.Dir, "fleet", "README.md"), "# hello")
	r.Commit()
	if out := mustRun(t, args...); strings.Contains(out, "pushed") {
		t.Errorf("a commit without changes was published:\n%s", out)
	}
	if source := lastSource(t, layout, keyDir, "r-1"); source == nil || source.Commit != first {
		t.Errorf("after a commit without changes: got source %+v, want commit %s", source, first)
	}
}

func TestInvalidCommitErrorNamesFileAndLine(t *testing.T) {
	r, layout := newRepository(t), filepath.Join(t.TempDir(), "layout")
	if err := os.CopyFS(filepath.Join(r.Dir, "fleet"), os.DirFS(fleetFolder(t))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Dir, "fleet", "bad.yaml"),
		"# a comment\n"+strings.Replace(kymaYAML("three", "r-3"), "channel:", "chanel:", 1))
	hash := r.Commit()
	got := run("publish", "--from", r.URL(), "--git-path", "fleet", "--to", "oci-layout:"+layout, "--keys",
		keyFolder(t))
	if want := "commit " + hash + " of " + r.URL() +
		": fleet/bad.yaml:6:3: spec.chanel: unknown field"; got.code != cli.ExitFailed ||
		!strings.Contains(got.err, want) {
		t.Errorf("got exit code %d\n%s\nwant %s", got.code, got.err, want)
	}
	if _, err := os.Stat(layout); !os.IsNotExist(err) {
		t.Errorf("publish created a layout for an invalid commit: %v", err)
	}
}

// The test replaces hashes and addresses in the guide's samples and in the output.
func TestGitGuideShowsTheActualOutput(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/git.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newRepository(t)
	alike := func(text string) string {
		text = strings.NewReplacer(r.URL(), "URL", "https://git.example/kyma/fleet.git", "URL", "branch master",
			"branch main").Replace(text)
		return regexp.MustCompile(`\b[0-9a-f]{4}…|\b[0-9a-f]{40}\b`).ReplaceAllString(text, "HASH")
	}
	write(t, filepath.Join(r.Dir, "fleet", "releases", "scaler.yaml"),
		strings.NewReplacer("keda", "scaler", "1.0.0", "1.7.0", "2.0.0", "1.8.0").Replace(releasesYAML))
	write(t, filepath.Join(r.Dir, "fleet", "kymas", "three.yaml"),
		"# new\n"+strings.Replace(kymaYAML("three", "r-3"), "channel:", "chanel:", 1))
	r.Commit()
	refused := run("publish", "--from", r.URL(), "--git-path", "fleet", "--to",
		"oci-layout:"+filepath.Join(t.TempDir(), "layout"), "--keys", keyFolder(t))
	if err := os.Remove(filepath.Join(r.Dir, "fleet", "kymas", "three.yaml")); err != nil {
		t.Fatal(err)
	}
	r.Commit()
	r.MakeBare()
	printed := mustRun(t, "promote", "scaler", "--git-url", r.URL(), "--git-path", "fleet", "--from", "fast", "--to",
		"regular", "--author", "Ada <ada@example.com>")
	for begin, output := range map[string]string{"commit ": refused.err, "promoted ": printed} {
		sample := regexp.MustCompile("(?ms)^```\n(" + begin + ".*?)\n```$").FindStringSubmatch(string(page))
		if sample == nil {
			t.Fatalf("docs/guides/git.md has no sample that begins with %q", begin)
		}
		if !strings.Contains(alike(output), alike(sample[1])) {
			t.Errorf("docs/guides/git.md shows\n%s\nbut the output is\n%s", alike(sample[1]), alike(output))
		}
	}
}

func TestGitFlagsWithoutEffectAreRefused(t *testing.T) {
	dir := fleetFolder(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a branch for a folder": {
			[]string{"--from", dir, "--git-branch", "main"}, cli.ExitUsage,
			"is a folder, so the --git flags do not apply",
		},
		"a password in the URL": {
			[]string{"--from", "https://a:hunter2@git.example/x"}, cli.ExitUsage,
			"--from: the URL contains credentials",
		},
		"a folder without credentials": {
			[]string{"--from", "file://" + dir, "--git-credentials", dir}, cli.ExitUsage, "--git-credentials: ",
		},
		"folder instead of a signers file": {
			[]string{"--from", "file://" + dir, "--git-signers", dir}, cli.ExitUsage, "--git-signers: ",
		},
		"a folder without a repository": {
			[]string{"--from", "file://" + dir}, cli.ExitFailed, "repository does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(append([]string{"publish", "--to", "oci-layout:" + filepath.Join(t.TempDir(), "layout")},
				c.args...)...)
			if got.code != c.code || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "hunter2") {
				t.Errorf("got exit code %d\n%s\nwant exit code %d with %q", got.code, got.err, c.code, c.want)
			}
		})
	}
}
