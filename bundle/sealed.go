package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Sealed are the Secrets of one runtime, encrypted to its agent's own key. It travels in the statement, so that it is signed, fresh
// and for this runtime like all else there. A statement without it says nothing about Secrets; one with it says all of them: what the
// agent had from an earlier one and is not in this goes.
//
// Source: age, https://age-encryption.org/v1.
type Sealed struct {
	// Recipient is whom it is encrypted to, in age's text form.
	Recipient string `json:"recipient"`
	// Revision names the content without telling anything about it.
	Revision string `json:"revision"`
	// Data is an age file.
	Data []byte `json:"data"`
}

// Limits of sealed Secrets: an attestation, which they are a part of, has 64 KiB after base64 twice.
const (
	MaxSealedBytes  = 24 << 10
	MaxSealed       = 64
	recipientPrefix = "age1"
)

// RuntimeSecret is one Secret for one runtime.
type RuntimeSecret struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      corev1.SecretType `json:"type,omitempty"`
	Data      map[string][]byte `json:"data"`

	// Module is what needs it; it travels no further than the control plane. So does Revision, which another content changes.
	Module   string `json:"-"`
	Revision string `json:"-"`
}

// sealedContent is what is encrypted.
type sealedContent struct {
	Runtime string          `json:"runtime"`
	Secrets []RuntimeSecret `json:"secrets"`
}

// Check refuses what no agent would write: its own Secrets, and those that Kubernetes makes.
func (s RuntimeSecret) Check() error {
	at := s.Namespace + "/" + s.Name
	switch {
	case len(validation.IsDNS1123Label(s.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(s.Name)) > 0:
		return fmt.Errorf("secret %q: want names that Kubernetes takes", at)
	case s.Namespace == v1beta2.RuntimeNamespace && strings.HasPrefix(s.Name, "skr-agent-"):
		return fmt.Errorf("secret %s: is the agent's own: choose another name", at)
	case s.Type == corev1.SecretTypeServiceAccountToken || s.Type == corev1.SecretTypeBootstrapToken:
		return fmt.Errorf("secret %s: type %s is for Kubernetes to make", at, s.Type)
	}
	for key := range s.Data {
		if len(validation.IsConfigMapKey(key)) > 0 {
			return fmt.Errorf("secret %s: data: a key is none that Kubernetes takes", at)
		}
	}
	return nil
}

// CheckRecipient tells whether a runtime's word on whom to encrypt to can be followed: exactly an X25519 recipient.
func CheckRecipient(recipient string) error {
	_, err := recipientOf(recipient)
	return err
}

func recipientOf(text string) (*age.X25519Recipient, error) {
	if len(text) > 100 || !strings.HasPrefix(text, recipientPrefix) {
		return nil, errors.New("recipient: want an age X25519 recipient")
	}
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, fmt.Errorf("recipient: %w", err)
	}
	return recipient, nil
}

// SealedRevision names Secrets as they are encrypted to a recipient. It holds their revisions, not their content: a digest of a short
// password would tell it.
func SealedRevision(recipient string, secrets []RuntimeSecret) string {
	lines := []string{recipient}
	for _, s := range sorted(secrets) {
		lines = append(lines, strings.Join([]string{s.Namespace, s.Name, string(s.Type), s.Revision}, " "))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

func sorted(secrets []RuntimeSecret) []RuntimeSecret {
	return slices.SortedFunc(slices.Values(secrets), func(a, b RuntimeSecret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Seal encrypts the Secrets of a runtime to its recipient. Equal Secrets give other bytes each time; compare revisions.
func Seal(runtime, recipient string, secrets []RuntimeSecret) (*Sealed, error) {
	to, err := recipientOf(recipient)
	if err != nil {
		return nil, err
	}
	content := sealedContent{Runtime: runtime, Secrets: sorted(secrets)}
	if err := content.check(); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() > MaxSealedBytes {
		return nil, fmt.Errorf("secrets of runtime %s: %d bytes encrypted, at most %d together", runtime, out.Len(), MaxSealedBytes)
	}
	return &Sealed{Recipient: recipient, Revision: SealedRevision(recipient, secrets), Data: out.Bytes()}, nil
}

// Open decrypts what was sealed to the identity for the runtime. Errors never hold content.
func (s *Sealed) Open(runtime string, identity *age.X25519Identity) ([]RuntimeSecret, error) {
	if len(s.Data) > MaxSealedBytes {
		return nil, fmt.Errorf("sealed secrets: %d bytes, at most %d", len(s.Data), MaxSealedBytes)
	}
	if own := identity.Recipient().String(); s.Recipient != own {
		return nil, fmt.Errorf("sealed secrets: are for %.20s…, this agent is %.20s…: they come anew once the control plane has its report", s.Recipient, own)
	}
	r, err := age.Decrypt(bytes.NewReader(s.Data), identity)
	if err != nil {
		return nil, fmt.Errorf("sealed secrets: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, MaxSealedBytes+1)) // encryption only adds
	if err != nil {
		return nil, fmt.Errorf("sealed secrets: %w", err)
	}
	if err := checkJSON(plain); err != nil {
		return nil, errors.New("sealed secrets: are no JSON that can be read in one way only")
	}
	var content sealedContent
	if err := decodeStrict(plain, &content); err != nil {
		return nil, errors.New("sealed secrets: are not what this version knows")
	}
	if content.Runtime != runtime {
		return nil, fmt.Errorf("sealed secrets: are for runtime %q, this is %q", content.Runtime, runtime)
	}
	return content.Secrets, content.check()
}

func (c sealedContent) check() error {
	if len(c.Secrets) > MaxSealed {
		return fmt.Errorf("secrets of runtime %s: %d, at most %d", c.Runtime, len(c.Secrets), MaxSealed)
	}
	seen := map[string]bool{}
	for _, s := range c.Secrets {
		if err := s.Check(); err != nil {
			return err
		}
		if at := s.Namespace + "/" + s.Name; seen[at] {
			return fmt.Errorf("secret %s: is there twice", at)
		}
		seen[s.Namespace+"/"+s.Name] = true
	}
	return nil
}
