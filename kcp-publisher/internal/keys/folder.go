// Package keys manages a fleet's key folder: the root of trust with its history, and the keys that the root lists.
// Changes to the folder are atomic.
package keys

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// These are the file names in a key folder.
const (
	FileRoot         = "root.json"
	FileRootKey      = "root.key"
	FilePublisherKey = "publisher.key"
	FileEnrollKey    = "enrol.key"
	FileTokenKey     = "token.key"
	// nextSuffix is the suffix of a new key's file until a root of trust that lists the key takes effect.
	nextSuffix = ".next"
)

// Folder is a folder with a fleet's keys.
type Folder struct {
	Dir string
	// PublisherKey replaces the publisher key in the folder. It is the path of a file, or a KMS reference such as
	// SCHEME://NAME.
	PublisherKey string
	// Passphrase encrypts new key files and decrypts existing ones. It is nil if key files are not encrypted.
	Passphrase []byte

	// exclusive is true if the caller has locked the folder. step is called before each step in a change.
	// Only tests set it.
	exclusive bool
	step      func(string)
}

func (f Folder) path(name string) string { return filepath.Join(f.Dir, name) }

// Root reads the latest root of trust version.
func (f Folder) Root() (trust.Root, error) {
	root, err := readRoot(f.locate(FileRoot))
	if errors.Is(err, syscall.ENOTDIR) {
		return root, fmt.Errorf("%w: set --keys to the folder that contains %s", err, FileRoot)
	}
	if errors.Is(err, os.ErrNotExist) {
		return root, fmt.Errorf("%w: set --keys to the folder of the fleet's keys, or create one with "+
			"`kcp-publisher keys init --keys %s`", err, f.Dir)
	}
	return root, err
}

func readRoot(path string) (trust.Root, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return trust.Root{}, err
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		return root, fmt.Errorf("%s: %w", path, err)
	}
	return root, nil
}

func historyFile(version int64) string { return "root-" + strconv.FormatInt(version, 10) + ".json" }

// formerRoots reads the root's previous versions in the folder, oldest first.
func (f Folder) formerRoots(root trust.Root) ([]trust.Root, error) {
	var found []trust.Root
	for version := root.Version - 1; version >= 1; version-- {
		older, err := readRoot(f.locate(historyFile(version)))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		found = append([]trust.Root{older}, found...)
	}
	return found, nil
}

// maxReads limits the attempts to read a folder if another program changes the folder during each attempt.
const maxReads = 5

// Load reads all of a publisher's keys. If another program changes the folder at the same time, Load reads all keys
// again, so that they belong to the same root of trust.
func (f Folder) Load(ctx context.Context) (keys publish.Keys, err error) {
	err = f.withSharedLock(ctx, func() error {
		for range maxReads {
			if keys, err = f.load(ctx); err != nil {
				return err
			}
			now, err := f.read(FileRoot)
			if err != nil || bytes.Equal(now, keys.Root.Raw) {
				return err
			}
		}
		return fmt.Errorf("key folder %s: changed during every attempt to read it", f.Dir)
	})
	return keys, err
}

func (f Folder) load(ctx context.Context) (publish.Keys, error) {
	root, err := f.Root()
	if err != nil {
		return publish.Keys{}, err
	}
	keys := publish.Keys{Root: root}
	if keys.FormerRoots, err = f.formerRoots(root); err != nil {
		return keys, err
	}
	switch {
	case strings.Contains(f.PublisherKey, "://"):
		keys.Signer, err = kms.Get(ctx, f.PublisherKey, crypto.SHA256)
		if err != nil {
			return keys, fmt.Errorf("publisher key %s: %w", f.PublisherKey, err)
		}
	case f.PublisherKey != "":
		keys.Signer, err = f.signer(f.PublisherKey)
	default:
		keys.Signer, err = f.roleKey(FilePublisherKey, root)
	}
	if err != nil {
		return keys, err
	}
	enroll, err := f.roleKey(FileEnrollKey, root)
	switch {
	case err == nil:
		keys.EnrollSigner = enroll
	case !errors.Is(err, os.ErrNotExist):
		return keys, err
	}
	return keys, nil
}

// roleKey reads a role's current key. If the root of trust lists the key in the role's .next file, roleKey returns that
// key, because an interrupted rotation may not have renamed the file yet.
func (f Folder) roleKey(name string, root trust.Root) (trust.Signer, error) {
	if data, listed := f.nextKey(name, root); listed {
		return f.decode(name+nextSuffix, data)
	}
	return f.signer(f.locate(name))
}

func (f Folder) signer(path string) (trust.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return f.decode(path, data)
}

func (f Folder) decode(path string, data []byte) (trust.Signer, error) {
	if !strings.Contains(string(data), string(cryptoutils.EncryptedSigstorePrivateKeyPEMType)) {
		signer, err := trust.LoadSigner(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return signer, nil
	}
	if len(f.Passphrase) == 0 {
		return nil, fmt.Errorf("%s is encrypted: set its passphrase with --passphrase-file", path)
	}
	opened, err := cryptoutils.UnmarshalPEMToPrivateKey(data, cryptoutils.StaticPasswordFunc(f.Passphrase))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := opened.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s contains a %T, must be an ECDSA P-256 key", path, opened)
	}
	return signature.LoadECDSASigner(key, crypto.SHA256)
}

// newKey generates a key, and returns the key and the content of its file. The content is encrypted if secret is true
// and a passphrase is configured.
func (f Folder) newKey(secret bool) (trust.Signer, []byte, error) {
	var pass cryptoutils.PassFunc
	if secret && len(f.Passphrase) > 0 {
		pass = cryptoutils.StaticPasswordFunc(f.Passphrase)
	}
	if pass == nil {
		data, err := trust.GenerateKey()
		if err != nil {
			return nil, nil, err
		}
		signer, err := trust.LoadSigner(data)
		return signer, data, err
	}
	data, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), pass)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	opened, err := cryptoutils.UnmarshalPEMToPrivateKey(data, pass)
	if err != nil {
		return nil, nil, fmt.Errorf("read the new key: %w", err)
	}
	signer, err := signature.LoadECDSASigner(opened.(*ecdsa.PrivateKey), crypto.SHA256)
	return signer, data, err
}
