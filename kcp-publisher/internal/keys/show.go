package keys

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// State is what a key counts for.
type State string

// States of a key.
const (
	// InUse is a key that signs now.
	InUse State = "InUse"
	// Next is a key that signs as soon as enough root keys have signed the root that lists it.
	Next State = "Next"
	// Accepted is a key that signs nothing new and is still believed.
	Accepted State = "Accepted"
	// NotListed is a key that would sign, and that the root does not list: nobody believes it.
	NotListed State = "NotListed"
	// Expired is a key of a root of trust whose time is over: nobody takes anything new that it signs.
	Expired State = "Expired"
)

// RoleToken is the role of the secrets in token.key, which no root lists.
const RoleToken = "token"

// Key is a key of the fleet, and what it counts for.
type Key struct {
	Role string `json:"role"`
	// Thumbprint names the key; of a token secret it is its id.
	Thumbprint string `json:"thumbprint"`
	// ID is the key's name in root.json.
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// AcceptedUntil is when the key counts no longer, at the latest: a rotation may come before.
	AcceptedUntil *time.Time `json:"acceptedUntil,omitempty"`
}

// Keys returns all keys that the folder knows of, by role.
func (f Folder) Keys(ctx context.Context, now time.Time) (root trust.Root, all []Key, err error) {
	err = f.consistently(ctx, func() error {
		if root, err = f.Root(); err != nil {
			return err
		}
		all = f.keysOf(root, f.signing(ctx, root), now)
		return nil
	})
	return root, all, err
}

// signing returns the thumbprints of the keys that sign now, by role. One that cannot be read is left out.
func (f Folder) signing(ctx context.Context, root trust.Root) map[string]string {
	found := map[string]string{}
	if loaded, err := f.load(ctx); err == nil {
		found[trust.RolePublisher] = thumbprintOf(loaded.Signer)
		found[trust.RoleEnroll] = thumbprintOf(loaded.Enroll)
		return found
	}
	for role, name := range map[string]string{trust.RolePublisher: FilePublisherKey, trust.RoleEnroll: FileEnrollKey} {
		if signer, err := f.roleKey(name, root); err == nil {
			found[role] = thumbprintOf(signer)
		}
	}
	return found
}

func thumbprintOf(signer trust.Signer) string {
	if signer == nil {
		return ""
	}
	public, err := signer.PublicKey()
	if err != nil {
		return ""
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		return ""
	}
	return thumbprint
}

func (f Folder) keysOf(root trust.Root, signing map[string]string, now time.Time) []Key {
	var all []Key
	until := root.Expires
	listed := root.Listed()
	for _, l := range listed {
		key := Key{Role: l.Role, Thumbprint: l.Thumbprint, ID: l.ID, State: InUse, AcceptedUntil: &until}
		if role := l.Role; (role == trust.RolePublisher || role == trust.RoleEnroll) && signing[role] != l.Thumbprint {
			key.State = Accepted
		}
		if !now.Before(root.Expires) {
			key.State = Expired
		}
		all = append(all, key)
	}
	for _, role := range []struct{ name, file string }{{trust.RolePublisher, FilePublisherKey}, {trust.RoleEnroll, FileEnrollKey}} {
		isListed := func(thumbprint string) bool {
			return slices.ContainsFunc(listed, func(l trust.Listed) bool { return l.Role == role.name && l.Thumbprint == thumbprint })
		}
		if signer := signing[role.name]; signer != "" && !isListed(signer) {
			all = append(all, Key{Role: role.name, Thumbprint: signer, State: NotListed})
		}
		if data, err := f.read(role.file + next); err == nil {
			if signer, err := f.decode(role.file+next, data); err == nil && !isListed(thumbprintOf(signer)) {
				all = append(all, Key{Role: role.name, Thumbprint: thumbprintOf(signer), State: Next})
			}
		}
	}
	secrets, _ := f.TokenSecrets() // whoever needs them says what is wrong with them
	for i, secret := range secrets {
		state := InUse
		if i > 0 {
			state = Accepted
		}
		all = append(all, Key{Role: RoleToken, Thumbprint: secret.ID(), State: state})
	}
	return all
}

// UnknownKeyError says that no version of the root in the folder lists a key.
type UnknownKeyError struct {
	Name string
	// Candidates are the keys that are listed.
	Candidates []trust.Listed
}

// RoleName returns a role as people read it: on the wire it keeps the spelling that it began with.
func RoleName(role string) string {
	if role == trust.RoleEnroll {
		return "enroll"
	}
	return role
}

func (e *UnknownKeyError) Error() string {
	var lines strings.Builder
	for _, c := range e.Candidates {
		hint := ""
		if e.Name != "" && (strings.HasPrefix(c.Thumbprint, e.Name) || strings.HasPrefix(c.ID, e.Name)) {
			hint = "  (begins like that: say all of it)"
		}
		fmt.Fprintf(&lines, "\n  %-10s %s%s", RoleName(c.Role), c.Thumbprint, hint)
	}
	return fmt.Sprintf("key %q: the root of trust lists no such key, and nothing was changed; these are listed:%s", e.Name, lines.String())
}

// Find returns the thumbprint of the key that a person means: its thumbprint or its id in root.json, whole, of this
// version of the root or of one before. A beginning is not enough: what is revoked is revoked for good.
func (f Folder) Find(name string) (string, error) {
	root, err := f.Root()
	if err != nil {
		return "", err
	}
	former, err := f.former(root)
	if err != nil {
		return "", err
	}
	listed := root.Listed()
	for _, version := range append([]trust.Root{root}, former...) {
		for _, l := range version.Listed() {
			if l.Thumbprint == name || l.ID == name {
				return l.Thumbprint, nil
			}
		}
	}
	return "", &UnknownKeyError{Name: name, Candidates: listed}
}

// CheckThumbprint reports whether a text is a thumbprint at all.
func CheckThumbprint(text string) error {
	if raw, err := base64.StdEncoding.DecodeString(text); err != nil || len(raw) != 32 {
		return fmt.Errorf("%q: want a thumbprint: base64 of 32 bytes", text)
	}
	return nil
}

// Signs returns the role in which the key signs now, empty for none. Where a role's key is not at hand, all that the
// root lists may be it.
func (f Folder) Signs(ctx context.Context, thumbprint string) (string, error) {
	root, err := f.Root()
	if err != nil {
		return "", err
	}
	signing := f.signing(ctx, root)
	for _, l := range root.Listed() {
		if l.Thumbprint != thumbprint {
			continue
		}
		if signer, known := signing[l.Role]; !known || signer == thumbprint {
			return l.Role, nil
		}
	}
	return "", nil
}
