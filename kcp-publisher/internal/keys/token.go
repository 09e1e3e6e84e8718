package keys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// maxTokenSecrets is the maximum number of secrets in token.key. After a rotation, token.key contains the current and
// the previous secret, one hexadecimal secret per line.
const maxTokenSecrets = 2

// TokenSecrets reads the secrets for deriving enrollment tokens and registry passwords. The current secret comes first.
func (f Folder) TokenSecrets() (trust.TokenSecrets, error) {
	data, err := f.read(FileTokenKey)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: set --keys to the folder of the fleet's keys, or restore the file", err)
	}
	if err != nil {
		return nil, err
	}
	var secrets trust.TokenSecrets
	for line := range strings.Lines(strings.TrimSpace(string(data))) {
		secret, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			return nil,
				fmt.Errorf("%s: line %d: %w", f.path(FileTokenKey), len(secrets)+1,
					errors.New("not a hexadecimal secret"))
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 || len(secrets) > maxTokenSecrets {
		return nil, fmt.Errorf("%s contains %d secrets, must contain 1 or 2, one per line: restore the file",
			f.path(FileTokenKey), len(secrets))
	}
	return secrets, nil
}

// TokenSecret returns the current token secret.
func (f Folder) TokenSecret() (trust.TokenSecret, error) {
	secrets, err := f.TokenSecrets()
	if err != nil {
		return nil, err
	}
	return secrets[0], nil
}

func newTokenSecret() (trust.TokenSecret, error) {
	secret := make([]byte, 32)
	_, err := rand.Read(secret)
	return secret, err
}

func tokenFile(secrets ...trust.TokenSecret) []byte {
	var data []byte
	for _, secret := range secrets {
		data = fmt.Appendf(data, "%x\n", []byte(secret))
	}
	return data
}

// RotateToken generates a new token secret. Tokens and passwords from the current secret stay valid until the next
// rotation. If dropOld is true, they become invalid immediately, and the current secret can be lost.
func (f Folder) RotateToken(ctx context.Context, dropOld bool) (made []WrittenFile, err error) {
	err = f.WithLock(ctx, func(f Folder) error {
		current, err := f.TokenSecret()
		if dropOld && errors.Is(err, os.ErrNotExist) {
			_, err = f.Root() // a folder with neither file is not a key folder
		}
		if err != nil {
			return err
		}
		fresh, err := newTokenSecret()
		if err != nil {
			return err
		}
		secrets, what := trust.TokenSecrets{fresh, current},
			"derives tokens and passwords; tokens and passwords of the previous secret are valid until the next "+
				"rotation"
		if dropOld {
			secrets, what = secrets[:1], "derives tokens and passwords; earlier tokens and passwords are refused"
		}
		files := &fileSet{folder: f}
		files.add(FileTokenKey, what, "with kcp-publisher and its token service", tokenFile(secrets...), 0o600)
		made, err = f.Write(files.files)
		return err
	})
	return made, err
}

// TokenFile caches a folder's token secrets and reads them again after a change. It is safe for concurrent use.
type TokenFile struct {
	folder Folder

	mu      sync.Mutex // guards the fields below
	read    fs.FileInfo
	secrets trust.TokenSecrets
}

// OpenTokenFile reads a folder's secrets.
func OpenTokenFile(f Folder) (*TokenFile, error) {
	t := &TokenFile{folder: f}
	_, err := t.Secrets()
	return t, err
}

// Secrets returns the secrets in the file. The current secret comes first.
func (t *TokenFile) Secrets() (trust.TokenSecrets, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.folder.locate(FileTokenKey))
	if err != nil {
		return nil, err
	}
	// Compare the file's identity and time, because every change to a key folder or a mounted Secret replaces the file.
	if t.read != nil && os.SameFile(t.read, info) && t.read.ModTime().Equal(info.ModTime()) &&
		t.read.Size() == info.Size() {
		return t.secrets, nil
	}
	secrets, err := t.folder.TokenSecrets()
	if err != nil {
		return nil, err
	}
	t.read, t.secrets = info, secrets
	return secrets, nil
}
