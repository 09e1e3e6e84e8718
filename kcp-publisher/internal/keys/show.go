package keys

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// State is the state of a key.
type State string

// These are a key's states.
const (
	// InUse means that the key is used for signing.
	InUse State = "InUse"
	// Next means that the key will be used for signing as soon as enough root keys have signed the new root of trust.
	Next State = "Next"
	// Accepted means that the publisher signs with a newer key, but agents still accept this key's signatures.
	Accepted State = "Accepted"
	// NotListed means that the root of trust does not list the key, so agents refuse its signatures.
	NotListed State = "NotListed"
	// Expired means that the root of trust has expired, so agents refuse new signatures.
	Expired State = "Expired"
)

// RoleToken is the role of the secrets in token.key, which the root does not list.
const RoleToken = "token"

// Key is one of the fleet's keys with its state.
type Key struct {
	Role string `json:"role"`
	// Thumbprint identifies the key. For a token secret, it is the secret's ID.
	Thumbprint string `json:"thumbprint"`
	// ID is the key's name in root.json.
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// AcceptedUntil is the time until which agents accept signatures with the key, or nil.
	AcceptedUntil *time.Time `json:"acceptedUntil,omitempty"`
}

// Keys returns the root of trust and all keys in the root or the folder, grouped by role.
func (f Folder) Keys(ctx context.Context, now time.Time) (root trust.Root, all []Key, err error) {
	err = f.withSharedLock(ctx, func() error {
		if root, err = f.Root(); err != nil {
			return err
		}
		all = f.listKeys(root, f.signingKeys(ctx, root), now)
		return nil
	})
	return root, all, err
}

// signingKeys maps each role to the thumbprint of its current signing key. It omits a role whose key cannot be read.
func (f Folder) signingKeys(ctx context.Context, root trust.Root) map[string]string {
	found := map[string]string{}
	if loaded, err := f.load(ctx); err == nil {
		found[trust.RolePublisher] = thumbprintOf(loaded.Signer)
		found[trust.RoleEnroll] = thumbprintOf(loaded.EnrollSigner)
		return found
	}
	for role, name := range map[string]string{trust.RolePublisher: FilePublisherKey, trust.RoleEnroll: FileEnrollKey} {
		if role == trust.RolePublisher && f.PublisherKey != "" {
			continue
		}
		if signer, err := f.roleKey(name, root); err == nil {
			found[role] = thumbprintOf(signer)
		}
	}
	return found
}

// currentKeys maps each role to the thumbprint of its current signing key. It omits a role whose key cannot be read. It
// also omits a key in the folder that is not the newest key of its role, because such a key was replaced by a key
// outside the folder.
func (f Folder) currentKeys(ctx context.Context, root trust.Root) map[string]string {
	found, listed := f.signingKeys(ctx, root), root.ListKeys()
	maps.DeleteFunc(found, func(role, thumbprint string) bool {
		isOutside := role == trust.RolePublisher && f.PublisherKey != ""
		return !isListed(listed, role, thumbprint) || !isOutside && thumbprint != root.NewestKey(role)
	})
	return found
}

func isListed(listed []trust.ListedKey, role, thumbprint string) bool {
	return slices.ContainsFunc(listed, func(l trust.ListedKey) bool {
		return l.Role == role && l.Thumbprint == thumbprint
	})
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

func (f Folder) listKeys(root trust.Root, signing map[string]string, now time.Time) []Key {
	var all []Key
	until := root.Expires
	listed := root.ListKeys()
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
	for _, role := range []struct{ name, file string }{{trust.RolePublisher, FilePublisherKey},
		{trust.RoleEnroll, FileEnrollKey}} {
		if signer := signing[role.name]; signer != "" && !isListed(listed, role.name, signer) {
			all = append(all, Key{Role: role.name, Thumbprint: signer, State: NotListed})
		}
		if data, err := f.read(role.file + nextSuffix); err == nil {
			signer, err := f.decode(role.file+nextSuffix, data)
			if err == nil && !isListed(listed, role.name, thumbprintOf(signer)) {
				all = append(all, Key{Role: role.name, Thumbprint: thumbprintOf(signer), State: Next})
			}
		}
	}
	secrets, _ := f.TokenSecrets() // commands that need the secrets return the error
	for i, secret := range secrets {
		state := InUse
		if i > 0 {
			state = Accepted
		}
		all = append(all, Key{Role: RoleToken, Thumbprint: secret.ID(), State: state})
	}
	return all
}

// UnknownKeyError means that no version of the root of trust lists the key.
type UnknownKeyError struct {
	Name string
	// Candidates contains the keys in the current root of trust that the user may have meant.
	Candidates []trust.ListedKey
}

// RoleName returns a role name for display. The wire format uses the older spelling "enrol".
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
			hint = "  (has this prefix: specify the whole thumbprint)"
		}
		fmt.Fprintf(&lines, "\n  %-10s %s%s", RoleName(c.Role), c.Thumbprint, hint)
	}
	return fmt.Sprintf("the root of trust does not list key %q, so nothing was changed; listed keys:%s", e.Name,
		lines.String())
}

// Find returns the thumbprint of a key in any root version. name is the key's complete thumbprint or ID.
func (f Folder) Find(name string) (string, error) {
	root, err := f.Root()
	if err != nil {
		return "", err
	}
	former, err := f.formerRoots(root)
	if err != nil {
		return "", err
	}
	listed := root.ListKeys()
	for _, version := range append([]trust.Root{root}, former...) {
		for _, l := range version.ListKeys() {
			if l.Thumbprint == name || l.ID == name {
				return l.Thumbprint, nil
			}
		}
	}
	return "", &UnknownKeyError{Name: name, Candidates: listed}
}

// CheckThumbprint returns an error for an invalid thumbprint.
func CheckThumbprint(text string) error {
	if raw, err := base64.StdEncoding.DecodeString(text); err != nil || len(raw) != 32 {
		return fmt.Errorf("%q is not a thumbprint: must be 32 bytes in base64", text)
	}
	return nil
}

// SigningRole returns the role that currently signs with a key, or "". If a role's current key is unknown,
// SigningRole treats every key that the root of trust lists for the role as current.
func (f Folder) SigningRole(ctx context.Context, thumbprint string) (string, error) {
	root, err := f.Root()
	if err != nil {
		return "", err
	}
	signing := f.currentKeys(ctx, root)
	for _, l := range root.ListKeys() {
		if l.Thumbprint != thumbprint {
			continue
		}
		if signer, known := signing[l.Role]; !known || signer == thumbprint {
			return l.Role, nil
		}
	}
	return "", nil
}
