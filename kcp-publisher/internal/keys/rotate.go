package keys

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature/kms"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rotate adds a new key to a role and revokes the keys that earlier rotations replaced. Agents accept the current key
// until the next rotation. If dropOld is true, Rotate also revokes the current key. public is the path of
// a file with the new public key, or a KMS reference. If public is empty, Rotate generates a key.
func (c *Change) Rotate(ctx context.Context, role, public string, dropOld bool) error {
	listed := map[string][]string{trust.RolePublisher: c.root.Publishers(), trust.RoleEnroll: c.root.Enrollers()}[role]
	name, what := FilePublisherKey, "signs bundles"
	if role == trust.RoleEnroll {
		name, what = FileEnrollKey, "signs agents' certificates"
	}
	added := ""
	if public != "" {
		key, err := publicKey(ctx, public)
		if err != nil {
			return err
		}
		if err := c.draft.Add(role, key); err != nil {
			return err
		}
		if added, err = trust.Thumbprint(key); err != nil {
			return err
		}
	} else if _, err := c.files.key(c.draft, role, name+nextSuffix, what, "with kcp-publisher", false); err != nil {
		return err
	}
	keep := ""
	if !dropOld {
		if keep = c.inUse(ctx, role); keep == "" && len(listed) > 1 {
			advice := "specify it with --publisher-key"
			if role == trust.RoleEnroll {
				advice = "put it into the folder as " + FileEnrollKey
			}
			return fmt.Errorf("the current %s key cannot be determined: %s, or replace all keys with --drop-old", role,
				advice)
		} else if keep == "" && len(listed) == 1 {
			keep = listed[0]
		}
	}
	for _, old := range listed {
		if old == keep || old == added {
			continue
		}
		if err := c.removeKey(role, old); err != nil {
			return err
		}
	}
	return nil
}

// removeKey removes a key from a role. It also revokes the key, unless the key has another role or LeaveUnrevoked was
// called.
func (c *Change) removeKey(role, thumbprint string) error {
	if err := c.draft.Remove(role, thumbprint); err != nil {
		return err
	}
	if c.unrevoked || c.draft.HasKey(thumbprint) {
		return nil
	}
	return c.draft.Revoke(thumbprint)
}

// inUse returns the thumbprint of a role's current signing key, or "" if it cannot be determined.
func (c *Change) inUse(ctx context.Context, role string) (thumbprint string) {
	err := c.folder.withSharedLock(ctx, func() error {
		thumbprint = c.folder.currentKeys(ctx, c.root)[role]
		return nil
	})
	if err != nil {
		return ""
	}
	return thumbprint
}

// RotateRoot replaces the root key whose thumbprint is old. If old is empty, it replaces the only root key.
func (c *Change) RotateRoot(old string) error {
	signers, _ := c.root.Signers()
	if old == "" && len(signers) == 1 {
		old = signers[0]
	}
	if old == "" {
		return fmt.Errorf("the root key to replace is required, one of: %s", strings.Join(signers, ", "))
	}
	if !slices.Contains(signers, old) {
		return fmt.Errorf("key %s is not a root key: the root keys are %s", old, strings.Join(signers, ", "))
	}
	if err := c.removeKey(trust.RoleRoot, old); err != nil {
		return err
	}
	name := fmt.Sprintf("root-v%d.key", c.draft.Version())
	signer, err := c.files.key(c.draft, trust.RoleRoot, name, "signs new versions of the root of trust", "offline",
		true)
	if err != nil {
		return err
	}
	c.signers = append(c.signers, signer)
	return nil
}

// Revoke revokes a key permanently.
func (c *Change) Revoke(thumbprint string) error {
	only := func(listed []string) bool { return len(listed) == 1 && listed[0] == thumbprint }
	switch roots, threshold := c.root.Signers(); {
	case only(c.root.Publishers()):
		return fmt.Errorf(
			"key %s is the only publisher key: replace it with `keys rotate publisher --drop-old`, which revokes it",
			thumbprint)
	case only(c.root.Enrollers()):
		return fmt.Errorf(
			"key %s is the only enrollment key: replace it with `keys rotate enroll --drop-old`, which revokes it",
			thumbprint)
	case slices.Contains(roots, thumbprint) && len(roots) <= threshold:
		return fmt.Errorf(
			"key %s is one of %d root keys, and a new root needs %d of their signatures: replace it with "+
				"`keys rotate root --old %s`, which revokes it", thumbprint, len(roots), threshold, thumbprint)
	}
	return c.draft.Revoke(thumbprint)
}

func publicKey(ctx context.Context, reference string) (crypto.PublicKey, error) {
	if strings.Contains(reference, "://") {
		signer, err := kms.Get(ctx, reference, crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", reference, err)
		}
		return signer.PublicKey()
	}
	data, err := os.ReadFile(reference)
	if err != nil {
		return nil, err
	}
	return decodePublic(reference, data)
}

func decodePublic(path string, data []byte) (crypto.PublicKey, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("%s: must contain exactly one PEM block of type PUBLIC KEY", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
