package trust

import (
	"maps"
	"slices"
	"strings"
)

// ListedKey is a key in a root of trust, with one of its roles.
type ListedKey struct {
	// Role is RoleRoot, RolePublisher, RoleEnroll, or RoleRelease followed by a component name prefix.
	Role       string
	Thumbprint string
	// ID is the key's ID in root.json: the digest of the key in TUF format.
	ID string
}

// ListKeys returns all keys in the root of trust, sorted by role and thumbprint.
func (r Root) ListKeys() []ListedKey {
	var all []ListedKey
	roles := r.parsed.Signed.Roles
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		first := len(all)
		for _, id := range roles[name].KeyIDs {
			if _, thumbprint, err := roleKey(r.parsed.Signed, id); err == nil {
				all = append(all, ListedKey{Role: name, Thumbprint: thumbprint, ID: id})
			}
		}
		slices.SortFunc(all[first:], func(a, b ListedKey) int { return strings.Compare(a.Thumbprint, b.Thumbprint) })
	}
	return all
}

// NewestKey returns the thumbprint of the key that was last added to a role, or "".
func (r Root) NewestKey(role string) string {
	listed := r.parsed.Signed.Roles[role]
	if listed == nil || len(listed.KeyIDs) == 0 {
		return ""
	}
	_, thumbprint, err := roleKey(r.parsed.Signed, listed.KeyIDs[len(listed.KeyIDs)-1])
	if err != nil {
		return ""
	}
	return thumbprint
}
