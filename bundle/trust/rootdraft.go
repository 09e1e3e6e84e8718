package trust

import (
	"crypto"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// RootDraft is an unsigned or partially signed root of trust version.
type RootDraft struct {
	metadata *metadata.Metadata[metadata.RootType]
}

// DraftRoot returns a draft of a fleet's first root of trust version. The draft has no keys.
func DraftRoot(fleet string, epoch int64, expires time.Time) *RootDraft {
	root := metadata.Root(expires.UTC().Truncate(time.Second))
	root.Signed.Roles = map[string]*metadata.Role{}
	root.Signed.UnrecognizedFields = map[string]any{fieldEpoch: epoch}
	if fleet != "" {
		root.Signed.UnrecognizedFields[fieldFleet] = fleet
	}
	d := &RootDraft{root}
	for _, role := range []string{RoleRoot, RolePublisher} {
		d.role(role)
	}
	return d
}

// Draft returns a draft of the next root of trust version. Its content is copied from r.
func (r Root) Draft(expires time.Time) (*RootDraft, error) {
	d, err := OpenDraft(r.Raw)
	if err != nil {
		return nil, err
	}
	d.metadata.ClearSignatures()
	d.metadata.Signed.Version++
	d.metadata.Signed.Expires = expires.UTC().Truncate(time.Second)
	return d, nil
}

// OpenDraft parses a root of trust draft.
func OpenDraft(data []byte) (*RootDraft, error) {
	parsed, err := readRoot(data)
	if err != nil {
		return nil, fmt.Errorf("root of trust: %w", err)
	}
	return &RootDraft{parsed}, nil
}

func (d *RootDraft) role(name string) *metadata.Role {
	role := d.metadata.Signed.Roles[name]
	if role == nil {
		role = &metadata.Role{KeyIDs: []string{}, Threshold: 1}
		d.metadata.Signed.Roles[name] = role
	}
	return role
}

// Version returns the version number of the draft.
func (d *RootDraft) Version() int64 { return d.metadata.Signed.Version }

// Add gives a role to a key.
func (d *RootDraft) Add(role string, key crypto.PublicKey) error {
	d.role(role)
	listed, err := metadata.KeyFromPublicKey(key)
	if err != nil {
		return fmt.Errorf("add %s key: %w", role, err)
	}
	return d.metadata.Signed.AddKey(listed, role)
}

// Remove removes a role from the keys with these thumbprints. It returns an error if a key does not have the role.
func (d *RootDraft) Remove(role string, thumbprints ...string) error {
	for _, thumbprint := range thumbprints {
		id := d.findKeyID(role, thumbprint)
		if id == "" {
			return fmt.Errorf("key %s is not a key of role %s", thumbprint, role)
		}
		if err := d.metadata.Signed.RevokeKey(id, role); err != nil {
			return fmt.Errorf("remove %s key %s: %w", role, thumbprint, err)
		}
	}
	return nil
}

func (d *RootDraft) findKeyID(role, thumbprint string) string {
	listed := d.metadata.Signed.Roles[role]
	if listed == nil {
		return ""
	}
	for _, id := range listed.KeyIDs {
		if _, found, err := roleKey(d.metadata.Signed, id); err == nil && found == thumbprint {
			return id
		}
	}
	return ""
}

// HasKey reports whether the key with this thumbprint has any role.
func (d *RootDraft) HasKey(thumbprint string) bool {
	for role := range d.metadata.Signed.Roles {
		if d.findKeyID(role, thumbprint) != "" {
			return true
		}
	}
	return false
}

// Revoke takes all roles from a key and adds the key to the list of revoked keys. Later versions cannot remove it from
// this list.
func (d *RootDraft) Revoke(thumbprint string) error {
	for _, role := range slices.Sorted(maps.Keys(d.metadata.Signed.Roles)) {
		if d.findKeyID(role, thumbprint) != "" {
			if err := d.Remove(role, thumbprint); err != nil {
				return err
			}
		}
	}
	revoked, _ := d.metadata.Signed.UnrecognizedFields[fieldRevoked].([]any)
	if !slices.Contains(revoked, any(thumbprint)) {
		revoked = append(revoked, thumbprint)
	}
	d.metadata.Signed.UnrecognizedFields[fieldRevoked] = revoked
	return nil
}

// SetThreshold sets how many of a role's keys must sign.
func (d *RootDraft) SetThreshold(role string, threshold int) { d.role(role).Threshold = threshold }

// SetFloor sets the minimum version of a component. An empty version removes the minimum.
func (d *RootDraft) SetFloor(component, version string) {
	floors, _ := d.metadata.Signed.UnrecognizedFields[fieldFloors].(map[string]any)
	if floors == nil {
		floors = map[string]any{}
	}
	floors[component] = version
	if version == "" {
		delete(floors, component)
	}
	d.metadata.Signed.UnrecognizedFields[fieldFloors] = floors
}

// SetEpoch sets the epoch. Agents refuse bundles from earlier epochs, even if these have a higher sequence.
func (d *RootDraft) SetEpoch(epoch int64) { d.metadata.Signed.UnrecognizedFields[fieldEpoch] = epoch }

// Sign signs the draft with the given root keys.
func (d *RootDraft) Sign(signers ...Signer) error {
	for _, signer := range signers {
		public, err := signer.PublicKey()
		if err != nil {
			return fmt.Errorf("read a root key: %w", err)
		}
		key, err := metadata.KeyFromPublicKey(public)
		if err != nil {
			return fmt.Errorf("read a root key: %w", err)
		}
		id, err := key.ID()
		if err != nil {
			return fmt.Errorf("read a root key: %w", err)
		}
		// Remove an earlier signature with the same key.
		d.metadata.Signatures = slices.DeleteFunc(d.metadata.Signatures, func(s metadata.Signature) bool {
			return s.KeyID == id
		})
		if _, err := d.metadata.Sign(signer); err != nil {
			return fmt.Errorf("sign root: %w", err)
		}
	}
	return nil
}

// CountSignatures returns the number of signatures in the draft, and the number of root keys that must sign it. If the
// draft changes the root keys, root keys from the previous version must also sign. The threshold does not include them.
func (d *RootDraft) CountSignatures() (signatures, threshold int) {
	return len(d.metadata.Signatures), d.role(RoleRoot).Threshold
}

// Bytes returns the draft as root.json, with the signatures so far.
func (d *RootDraft) Bytes() ([]byte, error) { return d.metadata.ToBytes(true) }
