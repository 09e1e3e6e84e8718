// Package trust checks signatures against a fleet's root of trust. It also manages the root of trust itself, and
// verifies agents' certificates and enrollments.
//
// A root of trust is a TUF root.json with custom roles. An agent's installation contains one version. The agent accepts
// newer versions, but never an older version. The package does not access files, registries or the clock.
package trust

import (
	"cmp"
	"crypto"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// Roles in the root of trust.
const (
	// RoleRoot is the role of the keys that sign the next root of trust version.
	RoleRoot = "root"
	// RolePublisher is the role of the keys that sign bundles.
	RolePublisher = "publisher"
	// RoleEnroll is the role of the keys that sign agents' certificates.
	RoleEnroll = "enrol"
	// RoleRelease, followed by a component name prefix, is the role of the keys that sign these components.
	RoleRelease = "release:"
)

// MaxRootBytes limits the size of one root of trust version.
const MaxRootBytes = 64 << 10

// MaxClockSkew limits how far the time in a signed document can be ahead of the reader's clock.
const MaxClockSkew = 24 * time.Hour

// Root is one verified root of trust version: a TUF root.json with custom roles.
//
// Source: TUF specification 1.0.33, section 4.3; its custom fields are epoch, fleet, floors and revoked.
type Root struct {
	Version int64
	Epoch   int64
	Expires time.Time
	// Fleet is the name of the fleet. It is empty in a root of trust from a version of kyma-pull that did not support
	// fleet names.
	Fleet string
	// Floors contains the minimum component versions, by component name.
	Floors map[string]string
	// Revoked are the revoked keys' thumbprints, sorted.
	Revoked []string
	// Raw is the content of the file root.json.
	Raw []byte

	parsed *metadata.Metadata[metadata.RootType]
	// publishers contains the keys that sign bundles, and enrollers the keys that sign certificates. The map keys are
	// thumbprints.
	publishers, enrollers map[string]crypto.PublicKey
	releases              []releaseRole
}

// releaseRole contains the keys that sign the components whose names start with prefix.
type releaseRole struct {
	prefix    string
	threshold int
	keys      []*rsa.PublicKey
}

const (
	fieldEpoch   = "epoch"
	fieldFleet   = "fleet"
	fieldFloors  = "floors"
	fieldRevoked = "revoked"
)

const (
	maxRootKeys = 200
	maxFloors   = 500
)

// ParseRoot parses a root of trust and checks that enough of its own root keys signed it. The caller must decide
// whether to trust these keys.
func ParseRoot(data []byte) (Root, error) {
	root, err := parseRoot(data)
	if err != nil {
		return Root{}, fmt.Errorf("root of trust: %w", err)
	}
	return root, nil
}

// IsUnderSigned reports whether ParseRoot refused a root because it has too few signatures.
func IsUnderSigned(err error) bool {
	var unsigned *metadata.ErrUnsignedMetadata
	return errors.As(err, &unsigned)
}

func parseRoot(data []byte) (Root, error) {
	parsed, err := readRoot(data)
	if err != nil {
		return Root{}, err
	}
	if err := parsed.VerifyDelegate(RoleRoot, parsed); err != nil {
		return Root{}, err
	}
	signed := parsed.Signed
	root := Root{Version: signed.Version, Expires: signed.Expires, Raw: data, parsed: parsed}
	if root.Version < 1 {
		return Root{}, fmt.Errorf("version: %d, must be at least 1", root.Version)
	}
	if err := root.readFields(signed.UnrecognizedFields); err != nil {
		return Root{}, err
	}
	if err := root.readRoles(signed); err != nil {
		return Root{}, err
	}
	if len(root.publishers) == 0 {
		return Root{}, fmt.Errorf("roles.%s.keyids: at least one key is required", RolePublisher)
	}
	return root, nil
}

func readRoot(data []byte) (*metadata.Metadata[metadata.RootType], error) {
	if len(data) > MaxRootBytes {
		return nil, fmt.Errorf("the document is %d bytes, must be at most %d", len(data), MaxRootBytes)
	}
	if err := strict.CheckJSON(data, strict.MaxJSONDepth); err != nil {
		return nil, err
	}
	parsed := &metadata.Metadata[metadata.RootType]{}
	if _, err := parsed.FromBytes(data); err != nil {
		return nil, err
	}
	signed := parsed.Signed
	if signed.Roles[RoleRoot] == nil || signed.Roles[RolePublisher] == nil {
		return nil, fmt.Errorf("roles: %q and %q are required", RoleRoot, RolePublisher)
	}
	if len(signed.Keys) > maxRootKeys {
		return nil, fmt.Errorf("keys: %d entries, must be at most %d", len(signed.Keys), maxRootKeys)
	}
	// The TUF library panics if a key is null.
	for id, key := range signed.Keys {
		if key == nil {
			return nil, fmt.Errorf("keys: %q is null", id)
		}
	}
	return parsed, nil
}

func (r *Root) readFields(fields map[string]any) error {
	var err error
	if r.Epoch, err = wholeNumber(fields[fieldEpoch]); err != nil {
		return fmt.Errorf("%s: %w", fieldEpoch, err)
	}
	var ok bool
	if fleet, there := fields[fieldFleet]; there {
		if r.Fleet, ok = fleet.(string); !ok || CheckRuntimeID(r.Fleet) != nil {
			return fmt.Errorf("%s: %v is not a valid fleet name", fieldFleet, fleet)
		}
	}
	floors, ok := cmp.Or[any](fields[fieldFloors], map[string]any{}).(map[string]any)
	if !ok || len(floors) > maxFloors {
		return fmt.Errorf("%s: must map at most %d component names to versions", fieldFloors, maxFloors)
	}
	r.Floors = make(map[string]string, len(floors))
	for component, value := range floors {
		version, _ := value.(string)
		if _, err := semver.NewVersion(version); err != nil {
			return fmt.Errorf("%s: %s: %v is not a semantic version", fieldFloors, component, value)
		}
		r.Floors[component] = version
	}
	revoked, ok := cmp.Or[any](fields[fieldRevoked], []any{}).([]any)
	if !ok {
		return fmt.Errorf("%s: must be a list of thumbprints", fieldRevoked)
	}
	for i, value := range revoked {
		thumbprint, ok := value.(string)
		if !ok || thumbprint == "" {
			return fmt.Errorf("%s[%d]: must be a thumbprint", fieldRevoked, i)
		}
		r.Revoked = append(r.Revoked, thumbprint)
	}
	slices.Sort(r.Revoked)
	return nil
}

func (r *Root) readRoles(signed metadata.RootType) error {
	r.publishers, r.enrollers = map[string]crypto.PublicKey{}, map[string]crypto.PublicKey{}
	for _, name := range slices.Sorted(maps.Keys(signed.Roles)) {
		role := signed.Roles[name]
		if role == nil {
			return fmt.Errorf("roles.%s is null", name)
		}
		prefix, isRelease := strings.CutPrefix(name, RoleRelease)
		release := releaseRole{prefix: prefix, threshold: role.Threshold}
		for _, id := range role.KeyIDs {
			key, thumbprint, err := roleKey(signed, id)
			if err != nil {
				return fmt.Errorf("%s key %s: %w", name, id, err)
			}
			if r.IsRevoked(thumbprint) {
				return fmt.Errorf("%s key %s is revoked", name, id)
			}
			switch {
			case name == RolePublisher && isSupported(key):
				r.publishers[thumbprint] = key
			case name == RoleEnroll && isSupported(key):
				r.enrollers[thumbprint] = key
			case isRelease:
				public, ok := key.(*rsa.PublicKey)
				if !ok {
					return fmt.Errorf("%s key %s: key type %T is not accepted, must be RSA", name, id, key)
				}
				release.keys = append(release.keys, public)
			case name == RolePublisher || name == RoleEnroll:
				return fmt.Errorf("%s key %s: key type %T is not accepted, must be ECDSA P-256 or Ed25519", name, id,
					key)
			}
		}
		if isRelease {
			if release.threshold < 1 || release.threshold > len(release.keys) {
				return fmt.Errorf("roles.%s.threshold: %d, must be 1 to %d", name, release.threshold, len(release.keys))
			}
			r.releases = append(r.releases, release)
		}
	}
	return nil
}

// roleKey returns the key with the given ID in root.json, and the key's thumbprint. The ID must be the digest of the
// key. Otherwise, one key with two IDs would count as two signers.
func roleKey(root metadata.RootType, id string) (crypto.PublicKey, string, error) {
	key := root.Keys[id]
	if key == nil {
		return nil, "", fmt.Errorf("the root does not contain this key")
	}
	if actual, err := key.ID(); err != nil || actual != id {
		return nil, "", fmt.Errorf("the ID is not the digest of the key")
	}
	public, err := key.ToPublicKey()
	if err != nil {
		return nil, "", err
	}
	thumbprint, err := Thumbprint(public)
	return public, thumbprint, err
}

// Publishers returns the thumbprints of the keys with RolePublisher, sorted.
func (r Root) Publishers() []string { return slices.Sorted(maps.Keys(r.publishers)) }

// Enrollers returns the thumbprints of the keys with RoleEnroll, sorted.
func (r Root) Enrollers() []string { return slices.Sorted(maps.Keys(r.enrollers)) }

// Releases returns the component name prefixes that have release keys, sorted.
func (r Root) Releases() []string {
	prefixes := make([]string, 0, len(r.releases))
	for _, role := range r.releases {
		prefixes = append(prefixes, role.prefix)
	}
	slices.Sort(prefixes)
	return prefixes
}

// Signers returns the root keys' thumbprints, sorted, and the number of root keys that must sign each root of trust
// version.
func (r Root) Signers() ([]string, int) {
	role := r.parsed.Signed.Roles[RoleRoot]
	var thumbprints []string
	for _, id := range role.KeyIDs {
		if _, thumbprint, err := roleKey(r.parsed.Signed, id); err == nil {
			thumbprints = append(thumbprints, thumbprint)
		}
	}
	slices.Sort(thumbprints)
	return thumbprints, role.Threshold
}

// PublisherKey returns the key with RolePublisher and this thumbprint, or nil.
func (r Root) PublisherKey(thumbprint string) crypto.PublicKey { return r.publishers[thumbprint] }

// TrustsKey reports whether the key with this thumbprint can sign bundles.
func (r Root) TrustsKey(thumbprint string) bool { return r.publishers[thumbprint] != nil }

// TrustsEnroll reports whether the key with this thumbprint can sign agents' certificates.
func (r Root) TrustsEnroll(thumbprint string) bool { return r.enrollers[thumbprint] != nil }

// IsRevoked reports whether the root of trust lists a key as revoked.
func (r Root) IsRevoked(thumbprint string) bool { return slices.Contains(r.Revoked, thumbprint) }

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
