package bundle

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
)

// editedRoot makes a root of one publisher key, lets change edit it and signs the result with the signers.
func editedRoot(tb testing.TB, change func(root *metadata.RootType), signers ...Signer) []byte {
	tb.Helper()
	data, err := NewRoot(signers[0], []crypto.PublicKey{publicKey(tb, newSigner(tb))}, testNow.AddDate(1, 0, 0))
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

func TestRootRoundTrip(t *testing.T) {
	ed, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := newSigner(t), newSigner(t)
	data, err := NewRoot(newSigner(t), []crypto.PublicKey{publicKey(t, first), publicKey(t, second), ed}, testNow)
	if err != nil {
		t.Fatal(err)
	}
	root, err := ParseRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	if root.Version != 1 || root.Epoch != 1 || !root.Expires.Equal(testNow) || !bytes.Equal(root.Raw, data) {
		t.Errorf("got %+v", root)
	}
	edHint, err := Thumbprint(ed)
	if err != nil {
		t.Fatal(err)
	}
	if len(root.Publishers()) != 3 {
		t.Errorf("got publishers %v, want 3", root.Publishers())
	}
	for _, hint := range []string{thumbprint(t, first), thumbprint(t, second), edHint} {
		if !root.Trusts(hint) {
			t.Errorf("does not trust %s", hint)
		}
	}
	if root.Trusts(thumbprint(t, newSigner(t))) || root.Trusts("") {
		t.Error("trusts a key that it does not list")
	}
}

func TestParseRootRefuses(t *testing.T) {
	rootKey, otherKey := newSigner(t), newSigner(t)
	honest := string(editedRoot(t, func(*metadata.RootType) {}, rootKey))
	if _, err := ParseRoot([]byte(honest)); err != nil {
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
		"a root that was changed after signing":     {strings.Replace(honest, `"epoch":1`, `"epoch":2`, 1), "root of trust: "},
		"a root without a signature":                {strings.Replace(honest, `"signatures":[{`, `"signatures":[],"x":[{`, 1), "root of trust: "},
		"a root that another key signed":            {string(editedRoot(t, func(r *metadata.RootType) { r.Roles[RoleRoot].KeyIDs = nil; add(RoleRoot, publicKey(t, otherKey))(r) }, rootKey)), "root of trust: "},
		"a root that one of two needed keys signed": {edited(func(r *metadata.RootType) { add(RoleRoot, publicKey(t, otherKey))(r); r.Roles[RoleRoot].Threshold = 2 }), "root of trust: "},
		"a root whose threshold is zero":            {edited(func(r *metadata.RootType) { r.Roles[RoleRoot].Threshold = 0 }), "root of trust: "},
		"a root without the role of the publisher":  {edited(func(r *metadata.RootType) { delete(r.Roles, RolePublisher) }), `"publisher" are required`},
		"a root without the role of the root":       {edited(func(r *metadata.RootType) { delete(r.Roles, RoleRoot) }), `"publisher" are required`},
		"a root without publisher keys":             {edited(func(r *metadata.RootType) { r.Roles[RolePublisher].KeyIDs = []string{} }), "at least one key is required"},
		"a root of version zero":                    {edited(func(r *metadata.RootType) { r.Version = 0 }), "root of trust: version: 0"},
		"a root without an epoch":                   {edited(func(r *metadata.RootType) { delete(r.UnrecognizedFields, fieldEpoch) }), "epoch: <nil> is not a whole number"},
		"a root with an epoch of zero":              {edited(func(r *metadata.RootType) { r.UnrecognizedFields[fieldEpoch] = 0 }), "epoch: 0 is not a whole number"},
		"a root with half an epoch":                 {strings.Replace(honest, `"epoch":1`, `"epoch":1.5`, 1), "root of trust: "},
		"a root with an epoch that is a text":       {edited(func(r *metadata.RootType) { r.UnrecognizedFields[fieldEpoch] = "1" }), "epoch: 1 is not a whole number"},
		"a publisher key that is not there":         {edited(func(r *metadata.RootType) { r.Roles[RolePublisher].KeyIDs[0] = strings.Repeat("0", 64) }), "is not among keys"},
		"a publisher key that is null":              {edited(func(r *metadata.RootType) { r.Keys[r.Roles[RolePublisher].KeyIDs[0]] = nil }), "root of trust: "},
		"a root key that is null": {edited(func(r *metadata.RootType) {
			r.Keys["null"] = nil
			r.Roles[RoleRoot].KeyIDs = append(r.Roles[RoleRoot].KeyIDs, "null")
		}), "root of trust: "},
		"a publisher key whose id is not its digest":    {edited(renamePublisher), "its id is not the digest of the key"},
		"a publisher key on another curve":              {edited(add(RolePublisher, &p384.PublicKey)), "is not accepted"},
		"a publisher key of RSA":                        {edited(add(RolePublisher, &rsaKey.PublicKey)), "is not accepted"},
		"a publisher key of Ed25519 that is cut off":    {edited(add(RolePublisher, ed25519.PublicKey{1, 2, 3})), "is not accepted"},
		"a root key of Ed25519 that is cut off":         {edited(add(RoleRoot, ed25519.PublicKey{1, 2, 3})), "root of trust: "},
		"a root of more than the limit":                 {honest + strings.Repeat(" ", MaxRootBytes), "at most 65536"},
		"a root with a key that stands there twice":     {strings.Replace(honest, `"version":1`, `"version":9,"version":1`, 1), `"version" appears twice`},
		"a root that nests too deep":                    {strings.Replace(honest, "{", `{"x":`+nested(MaxJSONDepth)+",", 1), "nested deeper"},
		"nothing":                                       {"", "document is empty"},
		"null":                                          {"null", "root of trust: "},
		"an empty object":                               {"{}", "root of trust: "},
		"other metadata of TUF":                         {strings.Replace(honest, `"_type":"root"`, `"_type":"targets"`, 1), "root of trust: "},
		"a root whose signed part is null":              {`{"signatures":[],"signed":null}`, "root of trust: "},
		"a root whose roles are null":                   {`{"signatures":[],"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{},"roles":{"root":null,"publisher":null}}}`, "root of trust: "},
		"a root whose version is a text":                {strings.Replace(honest, `"version":1`, `"version":"1"`, 1), "root of trust: "},
		"a root with an epoch that is beyond a number":  {strings.Replace(honest, `"epoch":1`, `"epoch":1e999`, 1), "root of trust: "},
		"a root of trust followed by a second document": {honest + "{}", "more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.in == honest {
				t.Fatal("nothing was changed")
			}
			if _, err := ParseRoot([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func renamePublisher(root *metadata.RootType) {
	id := root.Roles[RolePublisher].KeyIDs[0]
	root.Keys["mine"] = root.Keys[id]
	delete(root.Keys, id)
	root.Roles[RolePublisher].KeyIDs[0] = "mine"
}

func TestParseRootTakesEnoughOfSeveralRootKeys(t *testing.T) {
	first, second := newSigner(t), newSigner(t)
	data := editedRoot(t, func(root *metadata.RootType) {
		if err := addKey(root, publicKey(t, second), RoleRoot); err != nil {
			t.Fatal(err)
		}
		root.Roles[RoleRoot].Threshold = 2
		root.UnrecognizedFields[fieldEpoch] = 3
		root.Version = 4
	}, first, second)
	root, err := ParseRoot(data)
	if err != nil || root.Epoch != 3 || root.Version != 4 {
		t.Errorf("got %+v, %v", root, err)
	}
}

func TestKeyFiles(t *testing.T) {
	file, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer := newSigner(t)
	public, err := PublicKeyPEM(signer)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{
		"nothing":                     nil,
		"a public key":                public,
		"two keys in one file":        append(file[:len(file):len(file)], file...),
		"a key followed by something": append(file[:len(file):len(file)], "x"...),
		"a damaged key":               bytes.Replace(file, []byte("M"), []byte("N"), 1),
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if _, err := LoadSigner(in); err == nil || !strings.HasPrefix(err.Error(), "key file: ") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a public key survives its text form", func(t *testing.T) {
		encoded, err := EncodePublicKey(publicKey(t, signer))
		if err != nil {
			t.Fatal(err)
		}
		key, err := DecodePublicKey(encoded)
		if err != nil || !publicKey(t, signer).(*ecdsa.PublicKey).Equal(key) {
			t.Errorf("got %v, %v", key, err)
		}
	})
	t.Run("a public key of another kind is refused", func(t *testing.T) {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := EncodePublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodePublicKey(encoded); err == nil {
			t.Error("was accepted")
		}
	})
}

func FuzzParseRoot(f *testing.F) {
	honest := editedRoot(f, func(*metadata.RootType) {}, newSigner(f))
	f.Add(honest)
	f.Add([]byte(`{"signatures":[],"signed":null}`))
	f.Add([]byte(`{"signatures":null,"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{"a":null},"roles":{"root":{"keyids":["a"],"threshold":1},"publisher":{"keyids":["a"],"threshold":1}}}}`))
	f.Add([]byte(`{"signatures":[{"keyid":"a","sig":"00"}],"signed":{"_type":"root","spec_version":"1.0.31","version":1,"expires":"2027-03-01T12:00:00Z","keys":{"a":{"keytype":"ed25519","scheme":"ed25519","keyval":{"public":"00"}}},"roles":{"root":{"keyids":["a"],"threshold":1},"publisher":{"keyids":["a"],"threshold":1}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := ParseRoot(data)
		if err == nil && (root.Version < 1 || root.Epoch < 1 || len(root.Publishers()) == 0) {
			t.Errorf("accepted %+v", root)
		}
	})
}
