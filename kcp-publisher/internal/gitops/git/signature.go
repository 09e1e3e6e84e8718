package git

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/crypto/ssh"
)

// Signers are the signers that are accepted for commits.
type Signers struct {
	// openPGP is an armored key ring, or empty.
	openPGP string
	// ssh maps public key fingerprints to their principals.
	ssh map[string]string
}

// ReadSigners reads an armored OpenPGP key ring, or a file in the ALLOWED SIGNERS format of ssh-keygen(1).
func ReadSigners(name string) (*Signers, error) {
	data, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----")) {
		return &Signers{openPGP: string(data)}, nil
	}
	signers := &Signers{ssh: map[string]string{}}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		principal, rest, _ := strings.Cut(line, " ")
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: must be PRINCIPAL [namespaces=\"git\"] TYPE KEY", name, i+1)
		}
		for _, option := range options {
			if option != `namespaces="git"` {
				return nil, fmt.Errorf("%s:%d: option %s is not supported", name, i+1, option)
			}
		}
		signers.ssh[ssh.FingerprintSHA256(key)] = principal
	}
	if len(signers.ssh) == 0 {
		return nil, fmt.Errorf("%s contains neither an armored OpenPGP key nor an allowed signer", name)
	}
	return signers, nil
}

func (s *Signers) verify(commit *object.Commit) (string, error) {
	switch {
	case commit.PGPSignature == "":
		return "", errors.New("the commit is not signed")
	case s.openPGP != "":
		entity, err := commit.Verify(s.openPGP)
		if err != nil {
			return "", fmt.Errorf("the commit is not signed by a key of the key ring: %w", err)
		}
		return fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint), nil
	}
	signed, err := signedBytes(commit)
	if err != nil {
		return "", err
	}
	principal, err := s.verifySSH(signed, commit.PGPSignature)
	if err != nil {
		return "", fmt.Errorf("the commit is not signed by an allowed signer: %w", err)
	}
	return principal, nil
}

func signedBytes(commit *object.Commit) ([]byte, error) {
	encoded := &plumbing.MemoryObject{}
	if err := commit.EncodeWithoutSignature(encoded); err != nil {
		return nil, err
	}
	reader, err := encoded.Reader()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

const (
	sshMagic     = "SSHSIG"
	sshNamespace = "git"
)

// sshSignature is an armored SSH signature's content after the magic bytes SSHSIG.
//
// Source: OpenSSH, PROTOCOL.sshsig.
type sshSignature struct {
	Version   uint32
	PublicKey string
	Namespace string
	Reserved  string
	Hash      string
	Signature string
}

type sshSigned struct {
	Namespace string
	Reserved  string
	Hash      string
	Digest    string
}

func (s *Signers) verifySSH(signed []byte, armored string) (string, error) {
	block, rest := pem.Decode([]byte(armored))
	if block == nil || block.Type != "SSH SIGNATURE" || len(bytes.TrimSpace(rest)) > 0 {
		return "", errors.New("the signature is not an SSH signature")
	}
	body, ok := bytes.CutPrefix(block.Bytes, []byte(sshMagic))
	var parsed sshSignature
	if !ok || ssh.Unmarshal(body, &parsed) != nil || parsed.Version != 1 {
		return "", errors.New("the signature is malformed")
	}
	if parsed.Namespace != sshNamespace {
		return "", fmt.Errorf("the signature is for namespace %q, must be %q", parsed.Namespace, sshNamespace)
	}
	var digest []byte
	switch parsed.Hash {
	case "sha256":
		sum := sha256.Sum256(signed)
		digest = sum[:]
	case "sha512":
		sum := sha512.Sum512(signed)
		digest = sum[:]
	default:
		return "", fmt.Errorf("hash algorithm %q of the signature is not supported", parsed.Hash)
	}
	key, err := ssh.ParsePublicKey([]byte(parsed.PublicKey))
	if err != nil {
		return "", errors.New("the signature's key is malformed")
	}
	principal, known := s.ssh[ssh.FingerprintSHA256(key)]
	if !known {
		return "", fmt.Errorf("SSH key %s is not in the allowed signers file", ssh.FingerprintSHA256(key))
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal([]byte(parsed.Signature), &signature); err != nil {
		return "", errors.New("the signature is malformed")
	}
	if signature.Format == ssh.KeyAlgoRSA {
		return "", errors.New("the signature uses SHA-1")
	}
	message := append([]byte(sshMagic),
		ssh.Marshal(sshSigned{parsed.Namespace, parsed.Reserved, parsed.Hash, string(digest)})...)
	if err := key.Verify(message, &signature); err != nil {
		return "", errors.New("the signature does not match the commit")
	}
	return principal, nil
}
