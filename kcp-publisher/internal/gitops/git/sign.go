package git

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/crypto/ssh"
)

// SigningKey signs commits like `git commit -S` with gpg.format=ssh.
type SigningKey struct{ signer ssh.Signer }

// ReadSigningKey reads an SSH private key without a passphrase.
func ReadSigningKey(name string) (*SigningKey, error) {
	data, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		return nil, fmt.Errorf("%s is an RSA key: use an Ed25519 or ECDSA key", name)
	}
	return &SigningKey{signer}, nil
}

func (k *SigningKey) sign(commit *object.Commit) (string, error) {
	message, err := signedBytes(commit)
	if err != nil {
		return "", err
	}
	return k.signBytes(message, sshNamespace)
}

// signBytes returns an armored SSH signature for a namespace.
//
// Source: OpenSSH, PROTOCOL.sshsig.
func (k *SigningKey) signBytes(message []byte, namespace string) (string, error) {
	sum := sha512.Sum512(message)
	signature, err := k.signer.Sign(rand.Reader,
		append([]byte(sshMagic), ssh.Marshal(sshSigned{namespace, "", "sha512", string(sum[:])})...))
	if err != nil {
		return "", err
	}
	body := ssh.Marshal(sshSignature{
		1, string(k.signer.PublicKey().Marshal()), namespace, "", "sha512", string(ssh.Marshal(signature)),
	})
	return string(pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: append([]byte(sshMagic), body...)})), nil
}
