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
		"local folder":  func(*testing.T) string { return w.bare() },
		"Git over HTTP": func(t *testing.T) string { return strings.TrimSuffix(served(t, w.bare(), ""), "/.git") },
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
				t.Errorf("got commit %+v, want the pushed commit", after.commit)
			}
			all := fetched(t, Options{URL: r.URL})
			if got := names(t, all.Files); got != "fleet/deep/two.yaml fleet/one.yaml z/three.yaml" {
				t.Errorf("got files %s, want all three", got)
			}
			file, err := all.Files.Open("fleet/deep/two.yaml")
			w.must(err)
			if data, _ := io.ReadAll(file); string(data) != "new" {
				t.Errorf("got content %q, want new", data)
			}
			if _, err := r.Push(t.Context(), base, change, "main"); !errors.Is(err, ErrMoved) {
				t.Errorf("second push on the same base: got error %v, want ErrMoved", err)
			}
			if _, err := r.Push(t.Context(), base, change, "promote-two"); err != nil {
				t.Errorf("push to a new branch: got error %v, want none", err)
			}
			other := change
			other.Message = "another"
			if _, err := r.Push(t.Context(), base, other, "promote-two"); err == nil ||
				!strings.Contains(err.Error(), "already exists") {
				t.Errorf("push to an existing branch: got error %v, want already exists", err)
			}
			if now := fetched(t, Options{URL: r.URL}); now.Hash != pushed {
				t.Errorf("got commit %s on main, want %s", now.Hash, pushed)
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
		!strings.Contains(err.Error(), "main is checked out in the repository") {
		t.Errorf("push to the checked-out branch: got error %v, want a refusal", err)
	}
	if _, err := r.Push(t.Context(), base, change, "other"); err != nil {
		t.Errorf("push to another branch: got error %v, want none", err)
	}
	config, err := w.repo.Config()
	w.must(err)
	config.Raw.Section("receive").SetOption("denyCurrentBranch", "ignore")
	w.must(w.repo.SetConfig(config))
	if _, err := open(t, Options{URL: w.dir}).Push(t.Context(), base, change, "main"); err != nil {
		t.Errorf("push with receive.denyCurrentBranch=ignore: got error %v, want none", err)
	}
}

// sshSigner signs commits like `git commit -S` with gpg.format=ssh.
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

// git and ssh-keygen verify a commit that Push signed.
func TestGitVerifiesOurSignature(t *testing.T) {
	for _, program := range []string{"git", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
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
		t.Errorf("git verify-commit: got error %v\n%s", err, output)
	}
	signers, err := ReadSigners(allowed)
	w.must(err)
	if commit, err := open(t, Options{URL: r.URL, Signers: signers}).Commit(t.Context()); err != nil ||
		commit.Hash != hash || commit.SignedBy != "ada@example.com" {
		t.Errorf("got commit %+v and error %v, want signer ada@example.com", commit, err)
	}
}

func TestPreviewShowsCommitWithoutPushing(t *testing.T) {
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
			t.Errorf("preview does not contain %q:\n%s", want, text)
		}
	}
	if after := fetched(t, Options{URL: r.URL}); after.Hash != hash {
		t.Errorf("after the preview: got commit %s on main, want %s", after.Hash, hash)
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
		want    string // part of the error, or empty if the commit is accepted
	}{
		"commit signed by an allowed SSH key": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "git"} }, "",
		},
		"commit signed with a different SSH key": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{foreign, "git"} }, "is not in the allowed signers file",
		},
		"SSH signature with the namespace file": {
			allowed, func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "file"} }, `is for namespace "file"`,
		},
		"unsigned commit with SSH signers": {allowed, func(*gogit.CommitOptions) {}, "is not signed"},
		"OpenPGP signature with SSH signers": {
			allowed, func(o *gogit.CommitOptions) { o.SignKey = person }, "not an SSH signature",
		},
		"commit signed by a key-ring key": {ring.String(), func(o *gogit.CommitOptions) { o.SignKey = person }, ""},
		"commit signed with a different OpenPGP key": {
			ring.String(), func(o *gogit.CommitOptions) { o.SignKey = stranger }, "not signed by a key of the key ring",
		},
		"SSH signature with an OpenPGP key ring": {
			ring.String(), func(o *gogit.CommitOptions) { o.Signer = sshSigner{trusted, "git"} },
			"not signed by a key of the key ring",
		},
		"unsigned commit with an OpenPGP key ring": {ring.String(), func(*gogit.CommitOptions) {}, "is not signed"},
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
				t.Errorf("got commit %+v and error %v, want a signer", commit, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestSignatureForAnotherCommitIsRefused(t *testing.T) {
	w := newWork(t)
	key := newSSHKey(t)
	hash := w.commit(map[string]string{"a.yaml": "1"}, func(o *gogit.CommitOptions) {
		o.Signer = sshSigner{key, "git"}
	})
	commit, err := w.repo.CommitObject(plumbing.NewHash(hash))
	w.must(err)
	signers := &Signers{ssh: map[string]string{ssh.FingerprintSHA256(key.PublicKey()): "ada"}}
	if who, err := signers.verify(commit); err != nil || who != "ada" {
		t.Fatalf("unchanged commit: got signer %q and error %v, want ada", who, err)
	}
	if _, err := signers.verifySSH([]byte("tree of mine"), commit.PGPSignature); err == nil ||
		!strings.Contains(err.Error(), "does not match the commit") {
		t.Errorf("changed commit: got error %v, want a refusal", err)
	}
}

func TestInvalidSignersFileIsRefused(t *testing.T) {
	key := string(ssh.MarshalAuthorizedKey(newSSHKey(t).PublicKey()))
	for name, c := range map[string]struct{ content, want string }{
		"file with only a comment": {"# nobody\n", "neither an armored OpenPGP key nor an allowed signer"},
		"key without a principal":  {"\n" + key, "signers:2: must be PRINCIPAL"},
		"certificate authority":    {"ada cert-authority " + key, "signers:1: option cert-authority is not supported"},
		"key with an expiry":       {`ada valid-before="20300101" ` + key, "option valid-before"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "signers")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSigners(file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}
