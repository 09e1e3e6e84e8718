package trust_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func editedRoot(tb testing.TB, change func(root *metadata.RootType), signers ...trust.Signer) []byte {
	tb.Helper()
	data, err := trusttest.NewRoot(signers[0], []crypto.PublicKey{trusttest.PublicKey(tb, trusttest.NewSigner(tb))},
		trusttest.Now.AddDate(1, 0, 0))
	if err != nil {
		tb.Fatal(err)
	}
	root := &metadata.Metadata[metadata.RootType]{}
	if _, err := root.FromBytes(data); err != nil {
		tb.Fatal(err)
	}
	change(&root.Signed)
	root.ClearSignatures()
	for _, signer := range signers {
		if _, err := root.Sign(signer); err != nil {
			tb.Fatal(err)
		}
	}
	data, err = root.ToBytes(false)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func addKey(root *metadata.RootType, public crypto.PublicKey, role string) error {
	key, err := metadata.KeyFromPublicKey(public)
	if err != nil {
		return err
	}
	return root.AddKey(key, role)
}

func TestSignedRootIsParsed(t *testing.T) {
	ed, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := trusttest.NewSigner(t), trusttest.NewSigner(t)
	data, err := trusttest.NewRoot(trusttest.NewSigner(t),
		[]crypto.PublicKey{trusttest.PublicKey(t, first), trusttest.PublicKey(t, second), ed}, trusttest.Now)
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	if root.Version != 1 || root.Epoch != 1 || !root.Expires.Equal(trusttest.Now) || !bytes.Equal(root.Raw, data) {
		t.Errorf("got root %+v, want version 1 and epoch 1", root)
	}
	edHint, err := trust.Thumbprint(ed)
	if err != nil {
		t.Fatal(err)
	}
	if len(root.Publishers()) != 3 {
		t.Errorf("got publishers %v, want 3", root.Publishers())
	}
	for _, hint := range []string{trusttest.Thumbprint(t, first), trusttest.Thumbprint(t, second), edHint} {
		if !root.TrustsKey(hint) {
			t.Errorf("key %s: got not trusted, want trusted", hint)
		}
	}
	if root.TrustsKey(trusttest.Thumbprint(t, trusttest.NewSigner(t))) || root.TrustsKey("") {
		t.Error("unlisted key: got trusted, want not trusted")
	}
}

func TestUnknownFieldsOfARootAreIgnored(t *testing.T) {
	later := editedRoot(t, func(root *metadata.RootType) {
		root.UnrecognizedFields["later"] = map[string]any{"x": true}
		root.Roles["later"] = &metadata.Role{KeyIDs: []string{}, Threshold: 1}
	}, trusttest.NewSigner(t))
	root, err := trust.ParseRoot(later)
	if err != nil || root.Version != 1 || len(root.Publishers()) != 1 || !bytes.Contains(root.Raw, []byte(`"later"`)) {
		t.Errorf("got version %d, publishers %v, error %v, want version 1 and one publisher",
			root.Version, root.Publishers(), err)
	}
}

func TestParseRootRefusesInvalidRoots(t *testing.T) {
	rootKey, otherKey := trusttest.NewSigner(t), trusttest.NewSigner(t)
	honest := string(editedRoot(t, func(*metadata.RootType) {}, rootKey))
	if _, err := trust.ParseRoot([]byte(honest)); err != nil {
		t.Fatal(err)
	}
	edited := func(change func(*metadata.RootType)) string { return string(editedRoot(t, change, rootKey)) }
	add := func(role string, key crypto.PublicKey) func(*metadata.RootType) {
		return func(root *metadata.RootType) {
			if err := addKey(root, key, role); err != nil {
				t.Fatal(err)
			}
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ in, want string }{
		"a root that was changed after signing": {
			strings.Replace(honest, `"epoch":1`, `"epoch":2`, 1), "root of trust: ",
		},
		"a root without a signature": {
			strings.Replace(honest, `"signatures":[{`, `"signatures":[],"x":[{`, 1), "root of trust: ",
		},
		"a root signed by another key": {string(editedRoot(t, func(r *metadata.RootType) {
			r.Roles[trust.RoleRoot].KeyIDs = nil
			add(trust.RoleRoot, trusttest.PublicKey(t, otherKey))(r)
		}, rootKey)), "root of trust: "},
		"a root signed by one of two required keys": {edited(func(r *metadata.RootType) {
			add(trust.RoleRoot, trusttest.PublicKey(t, otherKey))(r)
			r.Roles[trust.RoleRoot].Threshold = 2
		}), "root of trust: "},
		"a root with a threshold of zero": {
			edited(func(r *metadata.RootType) { r.Roles[trust.RoleRoot].Threshold = 0 }), "root of trust: ",
		},
		"a root without the publisher role": {
			edited(func(r *metadata.RootType) { delete(r.Roles, trust.RolePublisher) }), `"publisher" are required`,
		},
		"a root without the root role": {
			edited(func(r *metadata.RootType) { delete(r.Roles, trust.RoleRoot) }), `"publisher" are required`,
		},
		"a root without publisher keys": {
			edited(func(r *metadata.RootType) { r.Roles[trust.RolePublisher].KeyIDs = []string{} }),
			"at least one key is required",
		},
		"a root with version zero": {
			edited(func(r *metadata.RootType) { r.Version = 0 }), "root of trust: version: 0",
		},
		"a root without an epoch": {
			edited(func(r *metadata.RootType) { delete(r.UnrecognizedFields, "epoch") }),
			"epoch: <nil> is not a whole number",
		},
		"a root with an epoch of zero": {
			edited(func(r *metadata.RootType) { r.UnrecognizedFields["epoch"] = 0 }), "epoch: 0 is not a whole number",
		},
		"a root with a fractional epoch": {
			strings.Replace(honest, `"epoch":1`, `"epoch":1.5`, 1), "root of trust: ",
		},
		"a root with a string as epoch": {
			edited(func(r *metadata.RootType) { r.UnrecognizedFields["epoch"] = "1" }),
			"epoch: 1 is not a whole number",
		},
		"a publisher key that is missing": {
			edited(func(r *metadata.RootType) { r.Roles[trust.RolePublisher].KeyIDs[0] = strings.Repeat("0", 64) }),
			"the root does not contain this key",
		},
		"a publisher key that is null": {
			edited(func(r *metadata.RootType) { r.Keys[r.Roles[trust.RolePublisher].KeyIDs[0]] = nil }),
			"root of trust: ",
		},
		"a root key that is null": {edited(func(r *metadata.RootType) {
			r.Keys["null"] = nil
			r.Roles[trust.RoleRoot].KeyIDs = append(r.Roles[trust.RoleRoot].KeyIDs, "null")
		}), "root of trust: "},
		"a publisher key whose id is not its digest": {
			edited(renamePublisher), "the ID is not the digest of the key",
		},
		"a publisher key on another curve": {
			edited(add(trust.RolePublisher, &p384.PublicKey)), "is not accepted",
		},
		"an RSA publisher key": {
			edited(add(trust.RolePublisher, &rsaKey.PublicKey)), "is not accepted",
		},
		"a truncated Ed25519 publisher key": {
			edited(add(trust.RolePublisher, ed25519.PublicKey{1, 2, 3})), "is not accepted",
		},
		"a truncated Ed25519 root key": {
			edited(add(trust.RoleRoot, ed25519.PublicKey{1, 2, 3})), "root of trust: ",
		},
		"a root larger than the limit": {
			honest + strings.Repeat(" ", trust.MaxRootBytes), "at most 65536",
		},
		"a root with a duplicate JSON key": {
			strings.Replace(honest, `"version":1`, `"version":9,"version":1`, 1), `"version" appears twice`,
		},
		"a root nested deeper than the limit": {
			strings.Replace(honest, "{", `{"x":`+trusttest.Nested(strict.MaxJSONDepth)+",", 1), "nested deeper",
		},
		"empty input":     {"", "document is empty"},
		"null":            {"null", "root of trust: "},
		"an empty object": {"{}", "root of trust: "},
		"another type of TUF metadata": {
			strings.Replace(honest, `"_type":"root"`, `"_type":"targets"`, 1), "root of trust: ",
		},
		"a root whose signed part is null": {`{"signatures":[],"signed":null}`, "root of trust: "},
		"a root whose roles are null": {
			`{"signatures":[],"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{},"roles":{"root":null,"publisher":null}}}`, "root of trust: ",
		},
		"a root with a string as version": {
			strings.Replace(honest, `"version":1`, `"version":"1"`, 1), "root of trust: ",
		},
		"a root with an epoch out of range": {
			strings.Replace(honest, `"epoch":1`, `"epoch":1e999`, 1), "root of trust: ",
		},
		"a root of trust followed by a second document": {honest + "{}", "more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.in == honest {
				t.Fatal("the test case did not change the root")
			}
			if _, err := trust.ParseRoot([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func renamePublisher(root *metadata.RootType) {
	id := root.Roles[trust.RolePublisher].KeyIDs[0]
	root.Keys["mine"] = root.Keys[id]
	delete(root.Keys, id)
	root.Roles[trust.RolePublisher].KeyIDs[0] = "mine"
}

func TestParseRootAcceptsAThresholdOfRootKeys(t *testing.T) {
	first, second := trusttest.NewSigner(t), trusttest.NewSigner(t)
	data := editedRoot(t, func(root *metadata.RootType) {
		if err := addKey(root, trusttest.PublicKey(t, second), trust.RoleRoot); err != nil {
			t.Fatal(err)
		}
		root.Roles[trust.RoleRoot].Threshold = 2
		root.UnrecognizedFields["epoch"] = 3
		root.Version = 4
	}, first, second)
	root, err := trust.ParseRoot(data)
	if err != nil || root.Epoch != 3 || root.Version != 4 {
		t.Errorf("got root %+v, error %v, want epoch 3 and version 4", root, err)
	}
}

func TestLoadSignerRefusesInvalidKeyFiles(t *testing.T) {
	file, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer := trusttest.NewSigner(t)
	public, err := trust.PublicKeyPEM(signer)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{
		"empty input":                  nil,
		"a public key":                 public,
		"two keys in one file":         append(file[:len(file):len(file)], file...),
		"a key followed by other text": append(file[:len(file):len(file)], "x"...),
		"a damaged key":                bytes.Replace(file, []byte("M"), []byte("N"), 1),
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if _, err := trust.LoadSigner(in); err == nil || !strings.HasPrefix(err.Error(), "key file: ") {
				t.Errorf("got error %v, want an error about the key file", err)
			}
		})
	}
	t.Run("a public key survives its text form", func(t *testing.T) {
		encoded, err := trust.EncodePublicKey(trusttest.PublicKey(t, signer))
		if err != nil {
			t.Fatal(err)
		}
		key, err := trust.DecodePublicKey(encoded)
		if err != nil || !trusttest.PublicKey(t, signer).(*ecdsa.PublicKey).Equal(key) {
			t.Errorf("got key %v, error %v, want the signer's public key", key, err)
		}
	})
	t.Run("a public key of an unsupported type is refused", func(t *testing.T) {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := trust.EncodePublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trust.DecodePublicKey(encoded); err == nil {
			t.Error("got no error, want an error")
		}
	})
}

func FuzzParseRoot(f *testing.F) {
	honest := editedRoot(f, func(*metadata.RootType) {}, trusttest.NewSigner(f))
	f.Add(honest)
	f.Add([]byte(`{"signatures":[],"signed":null}`))
	f.Add([]byte(
		`{"signatures":null,"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{"a":null},"roles":{"root":{"keyids":["a"],"threshold":1},"publisher":{"keyids":["a"],"threshold":1}}}}`))
	f.Add([]byte(
		`{"signatures":[{"keyid":"a","sig":"00"}],"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{"a":{"keytype":"ed25519","scheme":"ed25519","keyval":{"public":"00"}}},"roles":{"root":{"keyids":["a"],"threshold":1},"publisher":{"keyids":["a"],"threshold":1}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := trust.ParseRoot(data)
		if err == nil && (root.Version < 1 || root.Epoch < 1 || len(root.Publishers()) == 0) {
			t.Errorf("got accepted root %+v, want an error", root)
		}
	})
}
