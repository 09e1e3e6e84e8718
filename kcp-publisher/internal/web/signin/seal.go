package signin

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	minSecret = 32
	// maxSecrets is the maximum number of secrets in the file: the current one, and after a rotation the previous one.
	maxSecrets  = 2
	secretsPoll = 10 * time.Second
)

// errSealed is returned for every cause, so that an attacker does not learn details.
var errSealed = errors.New("the value was not encrypted by this program, or has expired")

// KeyFile is the file with the secret that encrypts cookies. After a rotation, its second line contains the previous
// secret. The file is read again after a change.
type KeyFile struct {
	path string
	now  func() time.Time

	mu      sync.Mutex // guards all following fields
	read    time.Time
	secrets []string
}

// OpenKeyFile returns the KeyFile at a path. It returns an error if the file is invalid.
func OpenKeyFile(path string, now func() time.Time) (*KeyFile, error) {
	f := &KeyFile{path: path, now: now}
	_, err := f.load()
	return f, err
}

// load returns the secrets, newest first. If the file cannot be read, it returns the previous secrets.
func (f *KeyFile) load() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.read) >= secretsPoll {
		secrets, err := readSecrets(f.path)
		if err != nil && f.secrets == nil {
			return nil, err
		}
		if err == nil {
			f.secrets = secrets
		}
		f.read = now
	}
	return f.secrets, nil
}

func readSecrets(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var secrets []string
	for line := range strings.Lines(strings.TrimSpace(string(data))) {
		secret := strings.TrimSpace(line)
		if len(secret) < minSecret {
			return nil,
				fmt.Errorf(
					"%s: line %d has %d characters, must have at least %d: create a secret with `openssl rand -hex 32`",
					path, len(secrets)+1, len(secret), minSecret)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 || len(secrets) > maxSecrets {
		return nil,
			fmt.Errorf("%s contains %d secrets, must contain 1 or 2: write one secret per line, the newest first",
				path, len(secrets))
	}
	return secrets, nil
}

type sealedValue struct {
	Expires time.Time       `json:"expires"`
	Value   json.RawMessage `json:"value"`
}

// seal encrypts a value for one purpose. Each purpose has its own key, so the value cannot be opened for another
// purpose.
func (f *KeyFile) seal(purpose string, value any, expires time.Time) (string, error) {
	secrets, err := f.load()
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	if plain, err = json.Marshal(sealedValue{Expires: expires, Value: plain}); err != nil {
		return "", err
	}
	key, err := purposeKey(secrets[0], purpose)
	if err != nil {
		return "", err
	}
	encrypter, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: key}, nil)
	if err != nil {
		return "", err
	}
	object, err := encrypter.Encrypt(plain)
	if err != nil {
		return "", err
	}
	return object.CompactSerialize()
}

// open decrypts a value that seal encrypted with the current or the previous secret.
func (f *KeyFile) open(purpose, text string, into any) error {
	secrets, err := f.load()
	if err != nil {
		return err
	}
	object, err := jose.ParseEncryptedCompact(text, []jose.KeyAlgorithm{jose.DIRECT},
		[]jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return errSealed
	}
	for _, secret := range secrets {
		key, err := purposeKey(secret, purpose)
		if err != nil {
			return err
		}
		plain, err := object.Decrypt(key)
		if err != nil {
			continue
		}
		var s sealedValue
		if err := json.Unmarshal(plain, &s); err != nil || !f.now().Before(s.Expires) {
			return errSealed
		}
		if err := json.Unmarshal(s.Value, into); err != nil {
			return errSealed
		}
		return nil
	}
	return errSealed
}

// purposeKey derives the key for one purpose from a secret.
//
// Source: RFC 5869, HMAC-based Extract-and-Expand Key Derivation Function.
func purposeKey(secret, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(secret), nil, "kyma-pull page "+purpose, 32)
}
