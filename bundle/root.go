package bundle

import (
	"crypto"
	"encoding/json"
	"fmt"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Roles of the root of trust.
const (
	RoleRoot      = "root"
	RolePublisher = "publisher"
)

// Root is one verified version of the root of trust: a TUF root.json with roles of our own.
//
// Source: TUF specification 1.0.33, section 4.3; its custom fields are epoch, floors and revoked.
type Root struct {
	Version int64
	Epoch   int64
	Expires time.Time
	// Raw is the file as it was read.
	Raw []byte

	// publishers holds the keys that may sign bundles, by thumbprint.
	publishers map[string]crypto.PublicKey
}

const fieldEpoch = "epoch"

// NewRoot makes the first version of a root of trust, signed by its only root key.
func NewRoot(rootKey Signer, publishers []crypto.PublicKey, expires time.Time) ([]byte, error) {
	root := metadata.Root(expires.UTC())
	root.Signed.Roles = map[string]*metadata.Role{
		RoleRoot:      {KeyIDs: []string{}, Threshold: 1},
		RolePublisher: {KeyIDs: []string{}, Threshold: 1},
	}
	root.Signed.UnrecognizedFields = map[string]any{fieldEpoch: 1}
	public, err := rootKey.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the root key: %w", err)
	}
	if err := addKey(&root.Signed, public, RoleRoot); err != nil {
		return nil, err
	}
	for _, key := range publishers {
		if err := addKey(&root.Signed, key, RolePublisher); err != nil {
			return nil, err
		}
	}
	if _, err := root.Sign(rootKey); err != nil {
		return nil, fmt.Errorf("sign root: %w", err)
	}
	return root.ToBytes(true)
}

func addKey(root *metadata.RootType, public crypto.PublicKey, role string) error {
	key, err := metadata.KeyFromPublicKey(public)
	if err != nil {
		return fmt.Errorf("add %s key: %w", role, err)
	}
	return root.AddKey(key, role)
}

// ParseRoot reads a pinned root of trust and checks that it is signed by its own threshold of root keys, so that a
// damaged file is noticed. Whether to trust it is the decision of whoever pinned it.
func ParseRoot(data []byte) (Root, error) {
	if len(data) > MaxRootBytes {
		return Root{}, fmt.Errorf("root of trust: %d bytes, at most %d", len(data), MaxRootBytes)
	}
	if err := checkJSON(data); err != nil {
		return Root{}, fmt.Errorf("root of trust: %w", err)
	}
	parsed := &metadata.Metadata[metadata.RootType]{}
	if _, err := parsed.FromBytes(data); err != nil {
		return Root{}, fmt.Errorf("root of trust: %w", err)
	}
	signed := parsed.Signed
	if signed.Roles[RoleRoot] == nil || signed.Roles[RolePublisher] == nil {
		return Root{}, fmt.Errorf("root of trust: roles: %q and %q are required", RoleRoot, RolePublisher)
	}
	// The library follows a key of null.
	for id, key := range signed.Keys {
		if key == nil {
			return Root{}, fmt.Errorf("root of trust: keys: %q is null", id)
		}
	}
	if err := parsed.VerifyDelegate(RoleRoot, parsed); err != nil {
		return Root{}, fmt.Errorf("root of trust: %w", err)
	}
	root := Root{Version: signed.Version, Expires: signed.Expires, Raw: data, publishers: map[string]crypto.PublicKey{}}
	if root.Version < 1 {
		return Root{}, fmt.Errorf("root of trust: version: %d, want at least 1", root.Version)
	}
	epoch, err := wholeNumber(signed.UnrecognizedFields[fieldEpoch])
	if err != nil {
		return Root{}, fmt.Errorf("root of trust: %s: %w", fieldEpoch, err)
	}
	root.Epoch = epoch
	for _, id := range signed.Roles[RolePublisher].KeyIDs {
		key, err := publisherKey(signed, id)
		if err != nil {
			return Root{}, fmt.Errorf("root of trust: publisher key %s: %w", id, err)
		}
		hint, err := Thumbprint(key)
		if err != nil {
			return Root{}, fmt.Errorf("root of trust: publisher key %s: %w", id, err)
		}
		root.publishers[hint] = key
	}
	if len(root.publishers) == 0 {
		return Root{}, fmt.Errorf("root of trust: roles.%s.keyids: at least one key is required", RolePublisher)
	}
	return root, nil
}

func publisherKey(root metadata.RootType, id string) (crypto.PublicKey, error) {
	key := root.Keys[id]
	if key == nil {
		return nil, fmt.Errorf("is not among keys")
	}
	if actual, err := key.ID(); err != nil || actual != id {
		return nil, fmt.Errorf("its id is not the digest of the key")
	}
	public, err := key.ToPublicKey()
	if err != nil {
		return nil, err
	}
	if !supported(public) {
		return nil, fmt.Errorf("%T is not accepted, want ECDSA P-256 or Ed25519", public)
	}
	return public, nil
}

// Publishers gives the thumbprints of the keys that may sign bundles.
func (r Root) Publishers() []string {
	hints := make([]string, 0, len(r.publishers))
	for hint := range r.publishers {
		hints = append(hints, hint)
	}
	return hints
}

// Trusts tells whether the key with this thumbprint may sign bundles.
func (r Root) Trusts(thumbprint string) bool { return r.publishers[thumbprint] != nil }

func wholeNumber(value any) (int64, error) {
	switch v := value.(type) {
	case float64:
		if v >= 1 && v == float64(int64(v)) {
			return int64(v), nil
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= 1 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%v is not a whole number of at least 1", value)
}
