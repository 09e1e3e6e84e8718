package receiver

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// Limits for the token file. A token must have at least as many characters as 128 bits in base64. The file can contain
// a second token during a rotation.
const (
	minTokenLength = 22
	maxTokens      = 2
	maxTokenBytes  = 4 << 10
)

// TokenFile reads a file with the registries' tokens, one per line, and reads it again after a change. It is safe for
// concurrent use.
type TokenFile struct {
	path string

	mu     sync.Mutex // guards the fields below
	read   fs.FileInfo
	tokens [][sha256.Size]byte
}

// OpenTokenFile reads the tokens for the first time.
func OpenTokenFile(path string) (*TokenFile, error) {
	t := &TokenFile{path: path}
	_, err := t.refresh()
	return t, err
}

// hasToken reports whether the file contains the token. It returns an error if the file cannot be read.
func (t *TokenFile) hasToken(token string) (bool, error) {
	tokens, err := t.refresh()
	if err != nil {
		return false, err
	}
	sum, found := sha256.Sum256([]byte(token)), 0
	for _, want := range tokens {
		found |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return found == 1, nil
}

func (t *TokenFile) refresh() ([][sha256.Size]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err != nil {
		return nil, err
	}
	// Kubernetes updates a mounted Secret with a rename, so the path then refers to a different file.
	if t.read != nil && os.SameFile(t.read, info) && t.read.ModTime().Equal(info.ModTime()) &&
		t.read.Size() == info.Size() {
		return t.tokens, nil
	}
	if info.Size() > maxTokenBytes {
		return nil, fmt.Errorf("%s: %d bytes, must be at most %d", t.path, info.Size(), maxTokenBytes)
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return nil, err
	}
	var tokens [][sha256.Size]byte
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		token := strings.TrimSpace(line)
		if len(token) < minTokenLength {
			return nil,
				fmt.Errorf(
					"%s: line %d: token has %d characters, must have at least %d: create one with "+
						"`openssl rand -hex 32`",
					t.path, i+1, len(token), minTokenLength)
		}
		tokens = append(tokens, sha256.Sum256([]byte(token)))
	}
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("%s: %d tokens, must be at most %d, one per line", t.path, len(tokens), maxTokens)
	}
	t.read, t.tokens = info, tokens
	return tokens, nil
}
