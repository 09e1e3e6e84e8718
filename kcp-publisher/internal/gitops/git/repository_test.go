package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // packs end with one
	"encoding/binary"
	"errors"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type work struct {
	t    *testing.T
	dir  string
	repo *gogit.Repository
}

func newWork(t *testing.T) *work {
	t.Helper()
	w := &work{t: t, dir: t.TempDir()}
	var err error
	w.repo, err = gogit.PlainInitWithOptions(w.dir, &gogit.PlainInitOptions{
		InitOptions: gogit.InitOptions{DefaultBranch: "refs/heads/main"},
	})
	w.must(err)
	return w
}

func (w *work) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// commit commits files. It deletes a file whose content is empty.
func (w *work) commit(files map[string]string, options ...func(*gogit.CommitOptions)) string {
	w.t.Helper()
	tree, err := w.repo.Worktree()
	w.must(err)
	for name, content := range files {
		path := filepath.Join(w.dir, name)
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(os.WriteFile(path, []byte(content), 0o644))
	}
	w.must(tree.AddGlob("."))
	o := &gogit.CommitOptions{Author: &object.Signature{Name: "Ada", Email: "ada@example.com", When: noon}}
	for _, option := range options {
		option(o)
	}
	hash, err := tree.Commit("update the fleet", o)
	w.must(err)
	return hash.String()
}

func open(t *testing.T, o Options) *Repository {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fetched(t *testing.T, o Options) *Commit {
	t.Helper()
	commit, err := open(t, o).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

func names(t *testing.T, files fs.FS) string {
	t.Helper()
	var all []string
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func served(t *testing.T, dir, password string) string {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Dir: dir,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir,
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
			"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, sent, _ := r.BasicAuth(); sent != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/.git"
}

func TestCommitContainsOnlyFilesUnderItsPath(t *testing.T) {
	w := newWork(t)
	hash := w.commit(map[string]string{
		"fleet/one.yaml": "a", "fleet/deep/two.yaml": "b", "secret.yaml": "c", "fleet.yaml": "d",
	})
	commit := fetched(t, Options{URL: w.dir, Branch: "main", Path: "/fleet/"})
	if commit.Hash != hash || commit.Branch != "main" || commit.Author != "Ada <ada@example.com>" ||
		!commit.Time.Equal(noon) {
		t.Errorf("got commit %+v, want %s on main", commit, hash)
	}
	if got := names(t, commit.Files); got != "deep/two.yaml one.yaml" {
		t.Errorf("got files %s, want deep/two.yaml and one.yaml", got)
	}
	if data, err := fs.ReadFile(commit.Files, "deep/two.yaml"); err != nil || string(data) != "b" {
		t.Errorf("got content %q and error %v, want b", data, err)
	}
	if _, err := fs.ReadFile(commit.Files, "../secret.yaml"); err == nil {
		t.Error("a file outside of the path was read")
	}
}

func TestBranchTagAndHeadSelectACommit(t *testing.T) {
	w := newWork(t)
	first := w.commit(map[string]string{"a.yaml": "1"})
	_, err := w.repo.CreateTag("annotated", plumbing.NewHash(first), &gogit.CreateTagOptions{
		Tagger: &object.Signature{Name: "Ada", When: noon}, Message: "one",
	})
	w.must(err)
	_, err = w.repo.CreateTag("light", plumbing.NewHash(first), nil)
	w.must(err)
	second := w.commit(map[string]string{"a.yaml": "2"})
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"branch":                {Options{Branch: "main"}, second},
		"HEAD without a branch": {Options{}, second},
		"lightweight tag":       {Options{Tag: "light"}, first},
		"annotated tag":         {Options{Tag: "annotated"}, first},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.URL = "file://" + w.dir
			if got := fetched(t, c.options); got.Hash != c.want {
				t.Errorf("got %s, want %s", got.Hash, c.want)
			}
		})
	}
}

func TestFetchFromGitHTTPBackendOmitsHistory(t *testing.T) {
	w := newWork(t)
	w.commit(map[string]string{"a.yaml": "1"})
	last := w.commit(map[string]string{"a.yaml": "2"})
	url := served(t, w.dir, "correct")
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "password"), []byte("correct\n"), 0o600))
	credentials, err := ReadCredentials(dir)
	w.must(err)
	commit := fetched(t, Options{URL: url, Credentials: credentials})
	if commit.Hash != last || commit.Branch != "main" || names(t, commit.Files) != "a.yaml" {
		t.Errorf("got commit %+v with files %s, want the last commit with a.yaml", commit, names(t, commit.Files))
	}
	if parent, err := commit.commit.Parent(0); err == nil {
		t.Errorf("got parent commit %s, want no history", parent.Hash)
	}
	head, err := open(t, Options{URL: url, Credentials: credentials}).Head(t.Context())
	if err != nil || head != commit.Head {
		t.Errorf("Head: got %s and error %v, want %s", head, err, commit.Head)
	}
	_, err = open(t, Options{URL: url}).Commit(t.Context())
	var refused *FetchError
	if err == nil || !strings.Contains(err.Error(), "authentication required") || !errors.As(err, &refused) ||
		refused.Cause != CredentialsRefused {
		t.Errorf("without a password: got error %v, want CredentialsRefused", err)
	}
}

func TestCommitWithLinkOrSubmoduleIsRefused(t *testing.T) {
	submodule := func(w *work, name string) {
		index, err := w.repo.Storer.Index()
		w.must(err)
		entry := index.Add(name)
		entry.Mode, entry.Hash = filemode.Submodule, plumbing.NewHash("1111111111111111111111111111111111111111")
		w.must(w.repo.Storer.SetIndex(index))
	}
	link := func(w *work, name string) {
		w.must(os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755))
		w.must(os.Symlink("/etc/passwd", filepath.Join(w.dir, name)))
	}
	for name, c := range map[string]struct {
		place func(*work, string)
		at    string
		want  string
	}{
		"symbolic link instead of a file": {
			link, "kymas/one.yaml", "kymas/one.yaml is a symbolic link, which is not followed",
		},
		"symbolic link instead of a folder": {link, "kymas", "kymas is a symbolic link"},
		"submodule instead of a folder": {
			submodule, "kymas", "kymas is a submodule, which is not fetched: replace it with the files",
		},
		"hidden symbolic link to a YAML file":  {link, ".one.yaml", ""},
		"hidden symbolic link to another file": {link, ".editorconfig", ""},
		"symbolic link in a hidden folder":     {link, ".github/kymas", ""},
		"hidden submodule":                     {submodule, ".tools", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWork(t)
			w.commit(map[string]string{"a.yaml": "1"})
			c.place(w, c.at)
			if c.at == "kymas" || c.at == ".tools" {
				tree, err := w.repo.Worktree()
				w.must(err)
				if _, err := os.Lstat(filepath.Join(w.dir, c.at)); err == nil {
					_, err = tree.Add(c.at)
					w.must(err)
				}
				_, err = tree.Commit("change", &gogit.CommitOptions{
					Author: &object.Signature{Name: "Ada", Email: "ada@example.com", When: noon},
				})
				w.must(err)
			} else {
				w.commit(nil)
			}
			commit, err := open(t, Options{URL: w.dir}).Commit(t.Context())
			if c.want != "" {
				var fetch *FetchError
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &fetch) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			w.must(err)
			if len(commit.Ignored) != 1 || !strings.HasPrefix(commit.Ignored[0], c.at+": ") ||
				names(t, commit.Files) != "a.yaml" {
				t.Errorf("got ignored entries %v and files %s", commit.Ignored, names(t, commit.Files))
			}
		})
	}
}

func TestReadErrorNamesTheMissingObjectAndURL(t *testing.T) {
	w := newWork(t)
	w.commit(map[string]string{"a.yaml": "1"})
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"missing branch":     {Options{URL: w.dir, Branch: "nope"}, "branch nope does not exist"},
		"missing tag":        {Options{URL: w.dir, Tag: "v1"}, "tag v1 does not exist"},
		"missing folder":     {Options{URL: w.dir, Path: "nope"}, "folder nope: directory not found"},
		"missing repository": {Options{URL: filepath.Join(w.dir, "nope")}, "repository does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, c.options).Commit(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.options.URL) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"password in the URL":    {Options{URL: "https://ada:hunter2@host/x"}, "contains credentials"},
		"token in the URL":       {Options{URL: "https://hunter2@host/x"}, "contains credentials"},
		"password in an SSH URL": {Options{URL: "ssh://ada:hunter2@host/x"}, "contains credentials"},
		"empty URL":              {Options{}, "must be a URL"},
		"branch and tag":         {Options{URL: "/x", Branch: "a", Tag: "b"}, "set only one of them"},
		"invalid branch name":    {Options{URL: "/x", Branch: "a..b"}, "not a valid branch"},
		"unsupported scheme":     {Options{URL: "ftp://host/x"}, `scheme "ftp" is not supported`},
		"password sent over HTTP": {
			Options{URL: "http://host/x", Credentials: Credentials{password: "hunter2"}}, "use https",
		},
		"SSH without known_hosts": {
			Options{URL: "git@host:x", Credentials: Credentials{identity: []byte("k")}}, "identity and known_hosts",
		},
		"SSH without credentials": {Options{URL: "ssh://git@host/x"}, "identity and known_hosts"},
		"invalid certificates": {
			Options{URL: "https://host/x", Credentials: Credentials{ca: []byte("k")}}, "contains no certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.options)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got error %v, want %q without the password", err, c.want)
			}
		})
	}
}

func pack(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, [2]uint32{2, 1})
	size := len(content)
	head := byte(3<<4 | size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(head | 0x80)
		head = byte(size & 0x7f)
	}
	b.WriteByte(head)
	z := zlib.NewWriter(&b)
	_, _ = z.Write(content)
	_ = z.Close()
	sum := sha1.Sum(b.Bytes()) //nolint:gosec // see above
	return append(b.Bytes(), sum[:]...)
}

func TestPackSizeIsCheckedBeforeStoring(t *testing.T) {
	if _, err := unpackObjects(bytes.NewReader(pack(t, []byte("honest")))); err != nil {
		t.Errorf("valid pack: got error %v, want none", err)
	}
	bomb := pack(t, make([]byte, maxInflatedBytes+1))
	if len(bomb) > 1<<20 {
		t.Fatalf("got a pack of %d bytes, want at most 1 MiB", len(bomb))
	}
	if _, err := unpackObjects(bytes.NewReader(bomb)); err == nil ||
		!strings.Contains(err.Error(), "larger than 256 MiB") {
		t.Errorf("pack that unpacks to more than 256 MiB: got error %v, want the size limit", err)
	}
	if _, err := unpackObjects(endless{}); !errors.Is(err, errTooLarge) {
		t.Errorf("endless pack: got error %v, want errTooLarge", err)
	}
	many := pack(t, []byte("x"))
	binary.BigEndian.PutUint32(many[8:], maxObjects+1)
	if _, err := unpackObjects(bytes.NewReader(many)); err == nil ||
		!strings.Contains(err.Error(), "objects, must be at most") {
		t.Errorf("pack with too many objects: got error %v, want the limit", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestDeltaTargetSizeIsDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		delta []byte
		want  int64
	}{
		"size in one byte":         {[]byte{5, 7, 0x90}, 7},
		"size in two bytes":        {[]byte{0x80, 0x01, 0xff, 0x7f}, 0x3fff},
		"truncated delta":          {[]byte{0x80}, 0},
		"size larger than 63 bits": {append([]byte{1}, bytes.Repeat([]byte{0xff}, 12)...), 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := targetSize(c.delta); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
