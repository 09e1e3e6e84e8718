package scenario

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// repository is a bare Git repository behind a Git server, and a team's clone.
type repository struct {
	t         *testing.T
	bare, dir string
	// url is the repository's address, and credentials is the folder with the clients' credentials.
	url, credentials string
	env              []string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed: cannot serve a repository")
	}
	served := t.TempDir()
	r := &repository{t: t, bare: filepath.Join(served, "fleet.git"), dir: t.TempDir(), credentials: t.TempDir()}
	r.env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=Ada",
		"GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	backend := &cgi.Handler{
		Path: program, Args: []string{"http-backend"}, Dir: served, Env: []string{
			"GIT_PROJECT_ROOT=" + served, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if name, password, _ := request.BasicAuth(); name != "kcp" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + "/fleet.git"
	must(t, os.WriteFile(filepath.Join(r.credentials, "username"), []byte("kcp\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(r.credentials, "password"), []byte("hunter2\n"), 0o600))
	r.git("init", "--quiet", "--bare", "--initial-branch=main", r.bare)
	r.git("-C", r.bare, "config", "http.receivepack", "true")
	r.git("clone", "--quiet", r.bare, r.dir)
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	output, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output))
}

// write writes files and removes each file whose content is empty.
func (r *repository) write(files map[string]string) {
	r.t.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if content == "" {
			must(r.t, os.Remove(path))
			continue
		}
		must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(r.t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// push commits files, pushes them to main, and returns the commit's hash.
func (r *repository) push(files map[string]string, options ...string) string {
	r.t.Helper()
	r.write(files)
	r.git("add", "-A")
	r.git(append(options, "commit", "--quiet", "-m", "change")...)
	r.git("push", "--quiet", "origin", "main")
	return r.git("rev-parse", "HEAD")
}

func (r *repository) flags() []string {
	return []string{
		"--git-url", r.url, "--git-branch", "main", "--git-path", "fleet", "--git-credentials", r.credentials,
	}
}

// pageFlags returns the publisher flags from docs/guides/git.md, changed for this repository.
func (r *repository) pageFlags() []string {
	r.t.Helper()
	words := wordsOf(r.t, blocksOf(r.t, "docs/guides/git.md", 4)[0], "https://git.example/kyma/fleet.git", r.url,
		"/etc/git", r.credentials)
	return words[slices.Index(words, "--git-url"):]
}

func document(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	must(t, err)
	return string(text)
}

// catalogOf returns the files for a fleet with scaler and mailer.
func catalogOf(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{
		"fleet/releases/scaler.yaml": `# what the team agreed on
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: scaler}
spec:
  moduleName: scaler
  ocmComponentName: ` + sample.Scaler("").Component() + `
  channels:
  - {channel: regular, version: 1.7.0} # since May
  - {channel: fast, version: 1.8.0}
`,
		"fleet/releases/mailer.yaml": document(t,
			sample.Release("mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.0.0"))),
		"README.md":    "# for people\n",
		"outside.yaml": "not for: the control plane\n",
	}
	for _, v := range []sample.Version{sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0")} {
		files["fleet/modules/"+v.Module+"-"+v.Version+".yaml"] = document(t, v.Template())
	}
	return files
}

func kymaOf(id string, modules ...string) string {
	text := "apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: " + id +
		", labels: {kyma-project.io/runtime-id: " + id + "}}\nspec:\n  channel: regular\n  modules:\n"
	for _, m := range modules {
		text += "  - name: " + m + "\n"
	}
	return text
}

// record returns the data of the ConfigMap that contains the publisher's record of the applied commit.
func record(t *testing.T, f *fleet.Fleet) map[string]string {
	t.Helper()
	config := &corev1.ConfigMap{}
	if err := f.Control.Get(t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: "kyma-pull-git"},
		config); err != nil {
		return map[string]string{"message": err.Error()}
	}
	return config.Data
}

func untilCommit(t *testing.T, f *fleet.Fleet, hash string) {
	t.Helper()
	until(t, 60*time.Second, "the control plane has applied commit "+hash, func() (bool, string) {
		r := record(t, f)
		return r["commit"] == hash && r["ready"] == "True" && r["applying"] == "", fmt.Sprint(r)
	})
}

// untilCommitRefused waits until the publisher refuses the newest commit with this reason, and checks that no object
// changed.
func untilCommitRefused(t *testing.T, f *fleet.Fleet, before map[string]string, reason string) {
	t.Helper()
	until(t, 60*time.Second, "the commit is refused: "+reason, func() (bool, string) {
		r := record(t, f)
		return r["ready"] == "False" && strings.Contains(r["message"], reason), fmt.Sprint(r)
	})
	if after := versions(t, f); !maps.Equal(before, after) {
		t.Errorf("a refused commit changed objects: before\n%v\nafter\n%v", before, after)
	}
}

// versions returns the generation and commit of every object in the control plane, by kind and name.
func versions(t *testing.T, f *fleet.Fleet) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, list := range []client.ObjectList{&v1beta2.KymaList{}, &v1beta2.ModuleTemplateList{},
		&v1beta2.ModuleReleaseMetaList{}} {
		must(t, f.Control.List(t.Context(), list, client.InNamespace(sample.Namespace)))
		switch l := list.(type) {
		case *v1beta2.KymaList:
			for _, o := range l.Items {
				all["Kyma "+o.Name] = fmt.Sprint(o.UID, o.Generation, o.Annotations[v1beta2.AnnotationGitCommit])
			}
		case *v1beta2.ModuleTemplateList:
			for _, o := range l.Items {
				all["ModuleTemplate "+o.Name] = fmt.Sprint(o.UID, o.Generation,
					o.Annotations[v1beta2.AnnotationGitCommit])
			}
		case *v1beta2.ModuleReleaseMetaList:
			for _, o := range l.Items {
				all["ModuleReleaseMeta "+o.Name] = fmt.Sprint(o.UID, o.Generation,
					o.Annotations[v1beta2.AnnotationGitCommit])
			}
		}
	}
	return all
}

// startFollowing starts a fleet whose publisher follows the repository.
func startFollowing(t *testing.T, flags []string) *fleet.Fleet {
	t.Helper()
	f := startFleet(t, fleet.Options{
		PublisherFlags:  append(flags, "--set", "git-poll-interval=500ms"),
		PublisherRights: []string{"publisher.yaml", "git.yaml"},
	})
	for _, v := range []sample.Version{sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0")} {
		must(t, v.Push(t.Context(), f.Modules))
	}
	return f
}

func bundleSource(t *testing.T, f *fleet.Fleet, runtime string) string {
	t.Helper()
	output, code := fleet.Run(t.Context(), f.Binaries().Agent, "verify", f.Location(), "--trust",
		filepath.Join(f.Keys(), "root.json"), "--runtime", runtime)
	_, source, found := strings.Cut(output, "source     commit ")
	if code != 0 || !found {
		t.Fatalf("skr-agent verify: exit code %d\n%s", code, output)
	}
	return strings.Fields(source)[0]
}

// scraped returns the metrics at an address whose names have the prefix.
func scraped(t *testing.T, address, prefix string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
