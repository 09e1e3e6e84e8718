package git

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/crypto/ssh"
)

var change = Change{
	Files: map[string][]byte{"deep/two.yaml": []byte("new")}, Name: "Ada", Email: "ada@example.com", Message: "promote",
	Time: noon,
}

// bare copies a repository to a folder without a working tree.
func (w *work) bare() string {
	w.t.Helper()
	dir := w.t.TempDir()
	_, err := gogit.PlainClone(dir, true, &gogit.CloneOptions{URL: w.dir})
	w.must(err)
	return dir
}

func TestPushChangesOneFile(t *testing.T) {
	w := newWork(t)
	first := w.commit(map[string]string{"fleet/deep/two.yaml": "old", "fleet/one.yaml": "1", "z/three.yaml": "3"})
	for name, url := range map[string]func(*testing.T) string{
		"in a folder":     func(*testing.T) string { return w.bare() },
		"over git's HTTP": func(t *testing.T) string { return strings.TrimSuffix(served(t, w.bare(), ""), "/.git") },
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, Options{URL: url(t), Path: "fleet"})
			base, err := r.Commit(t.Context())
			w.must(err)
			pushed, err := r.Push(t.Context(), base, change, "main")
			w.must(err)
			after, err := r.Commit(t.Context())
			w.must(err)
			if after.Hash != pushed || after.commit.ParentHashes[0].String() != first || after.Message != "promote" ||
				after.Author != "Ada <ada@example.com>" {
				t.Errorf("got %+v", after.commit)
			}
			all := fetched(t, Options{URL: r.URL})
			if got := names(t, all.Files); got != "fleet/deep/two.yaml fleet/one.yaml z/three.yaml" {
				t.Errorf("files %s", got)
			}
			file, err := all.Files.Open("fleet/deep/two.yaml")
			w.must(err)
			if data, _ := io.ReadAll(file); string(data) != "new" {
				t.Errorf("content %q", data)
			}
			if _, err := r.Push(t.Context(), base, change, "main"); !errors.Is(err, ErrMoved) {
				t.Errorf("a second push on the same base: %v", err)
			}
			if _, err := r.Push(t.Context(), base, change, "promote-two"); err != nil {
				t.Errorf("a new branch: %v", err)
			}
			other := change
			other.Message = "another"
			if _, err := r.Push(t.Context(), base, other, "promote-two"); err == nil ||
				!strings.Contains(err.Error(), "exists already") {
				t.Errorf("a branch that exists: %v", err)
			}
			if now := fetched(t, Options{URL: r.URL}); now.Hash != pushed {
				t.Errorf("main is at %s", now.Hash)
			}
		})
	}
}

func TestCheckedOutBranchIsNotMoved(t *testing.T) {
	w := newWork(t)
	w.commit(map[string]string{"deep/two.yaml": "old"})
	r := open(t, Options{URL: w.dir})
	base, err := r.Commit(t.Context())
	w.must(err)
	if _, err := r.Push(t.Context(), base, change, "main"); err == nil ||
		!strings.Contains(err.Error(), "main is checked out there") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Push(t.Context(), base, change, "other"); err != nil {
		t.Errorf("another branch: %v", err)
	}
	config, err := w.repo.Config()
	w.must(err)
	config.Raw.Section("receive").SetOption("denyCurrentBranch", "ignore")
	w.must(w.repo.SetConfig(config))
	if _, err := open(t, Options{URL: w.dir}).Push(t.Context(), base, change, "main"); err != nil {
		t.Errorf("where the repository allows it: %v", err)
	}
}

// signer signs commits as `git commit -S` with gpg.format=ssh does.
type sshSigner struct {
	key       ssh.Signer
	namespace string
}

func (s sshSigner) Sign(message io.Reader) ([]byte, error) {
	data, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	signature, err := (&SigningKey{s.key}).signBytes(data, s.namespace)
	return []byte(signature), err
}

// TestGitVerifiesOurSignature lets ssh-keygen, which git asks, judge a commit that Push signed.
func TestGitVerifiesOurSignature(t *testing.T) {
	for _, program := range []string{"git", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: it is not there to be asked", program)
		}
	}
	w := newWork(t)
	w.commit(map[string]string{"deep/two.yaml": "old"})
	_, private, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	w.must(err)
	dir := t.TempDir()
	file, allowed := filepath.Join(dir, "key"), filepath.Join(dir, "allowed")
	w.must(os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	key, err := ReadSigningKey(file)
	w.must(err)
	w.must(os.WriteFile(allowed,
		append([]byte("ada@example.com "), ssh.MarshalAuthorizedKey(key.signer.PublicKey())...), 0o600))
	r := open(t, Options{URL: w.bare()})
	base, err := r.Commit(t.Context())
	w.must(err)
	signed := change
	signed.Key = key
	hash, err := r.Push(t.Context(), base, signed, "main")
	w.must(err)
	cmd := exec.CommandContext(t.Context(), "git", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", hash)
	cmd.Dir, cmd.Env = r.URL, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if output, err := cmd.CombinedOutput(); err != nil ||
		!strings.Contains(string(output), `Good "git" signature for ada@example.com`) {
		t.Errorf("git reports %v\n%s", err, output)
	}
	signers, err := ReadSigners(allowed)
	w.must(err)
	if commit, err := open(t, Options{URL: r.URL, Signers: signers}).Commit(t.Context()); err != nil ||
		commit.Hash != hash || commit.SignedBy != "ada@example.com" {
		t.Errorf("got %+v, %v", commit, err)
	}
}

func TestPreviewShowsTheCommitOnly(t *testing.T) {
	w := newWork(t)
	hash := w.commit(map[string]string{"fleet/deep/two.yaml": "one\nold\n"})
	r := open(t, Options{URL: w.bare(), Path: "fleet"})
	base, err := r.Commit(t.Context())
	w.must(err)
	change := change
	change.Files = map[string][]byte{"deep/two.yaml": []byte("one\nnew\n")}
	text, err := r.Preview(base, change)
	w.must(err)
	for _, want := range []string{"Author: Ada <ada@example.com>", "    promote",
		"--- a/fleet/deep/two.yaml\n+++ b/fleet/deep/two.yaml", "-old\n+new\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if after := fetched(t, Options{URL: r.URL}); after.Hash != hash {
		t.Errorf("main is at %s", after.Hash)
	}
}

func newSSHKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestOnlySignedCommitsAreRead(t *testing.T) {
	trusted, foreign := newSSHKey(t), newSSHKey(t)
	person, err := openpgp.NewEntity("Ada", "", "ada@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := openpgp.NewEntity("Eve", "", "eve@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var ring bytes.Buffer
	armored, err := armor.Encode(&ring, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(person.Serialize(armored), armored.Close()); err != nil {
		t.Fatal(err)
	}
	allowed := "# who may\nada@example.com namespaces=\"git\" " + string(ssh.MarshalAuthorizedKey(trusted.PublicKey()))
	for name, c := range map[string]struct {
		signers string
		sign    func(*gogit.CommitOptions)
		want    string // part of the error, empty when it is accepted
	}{
		"an allowed SSH key": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "git"} }, "",
		},
		"an SSH key of another user": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{foreign, "git"} }, "is not allowed",
		},
		"a signature of a file": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "file"} }, `is for "file"`,
		},
		"no signature": {allowed, func(*gogit.CommitOptions) {}, "is not signed"},
		"OpenPGP where SSH is wanted": {
			allowed, func(o *gogit.CommitOptions) { o.SignKey = person }, "not an SSH signature",
		},
		"a key of the key ring": {ring.String(), func(o *gogit.CommitOptions) { o.SignKey = person }, ""},
		"a key of another user": {
			ring.String(), func(o *gogit.CommitOptions) { o.SignKey = stranger }, "not signed by a key of the key ring",
		},
		"SSH where OpenPGP is wanted": {
			ring.String(), func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "git"} },
			"not signed by a key of the key ring",
		},
		"no OpenPGP signature": {ring.String(), func(*gogit.CommitOptions) {}, "is not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "signers")
			w := newWork(t)
			w.must(os.WriteFile(file, []byte(c.signers), 0o600))
			signers, err := ReadSigners(file)
			w.must(err)
			w.commit(map[string]string{"a.yaml": "1"}, c.sign)
			commit, err := open(t, Options{URL: w.dir, Signers: signers}).Commit(t.Context())
			if c.want == "" && (err != nil || commit.SignedBy == "") {
				t.Errorf("got %+v, %v", commit, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestSignatureOfAnotherCommitIsRefused(t *testing.T) {
	w := newWork(t)
	key := newSSHKey(t)
	hash := w.commit(map[string]string{"a.yaml": "1"}, func(o *gogit.CommitOptions) {
		o.Signer = sshSigner{key, "git"}
	})
	commit, err := w.repo.CommitObject(plumbing.NewHash(hash))
	w.must(err)
	signers := &Signers{ssh: map[string]string{ssh.FingerprintSHA256(key.PublicKey()): "ada"}}
	if who, err := signers.verify(commit); err != nil || who != "ada" {
		t.Fatalf("as it is: %q, %v", who, err)
	}
	if _, err := signers.verifySSH([]byte("tree of mine"), commit.PGPSignature); err == nil ||
		!strings.Contains(err.Error(), "does not match the commit") {
		t.Errorf("got %v", err)
	}
}

func TestFilesOfSignersThatSayNothingUsableAreRefused(t *testing.T) {
	key := string(ssh.MarshalAuthorizedKey(newSSHKey(t).PublicKey()))
	for name, c := range map[string]struct{ content, want string }{
		"nothing":               {"# nobody\n", "neither an armored OpenPGP key nor an allowed signer"},
		"a key without a name":  {"\n" + key, "signers:2: want PRINCIPAL"},
		"an authority":          {"ada cert-authority " + key, "signers:1: option cert-authority is not supported"},
		"a key that has an end": {`ada valid-before="20300101" ` + key, "option valid-before"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "signers")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSigners(file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
