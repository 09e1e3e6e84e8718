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

// Sealed is what a bundle says about the Secrets of its runtime, encrypted to the key that the runtime's agent names in
// its reports. It travels in the statement, so that it is signed, fresh and for this runtime like all else there. A
// statement without it says nothing about Secrets.
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

// Limits of what is sealed: an attestation, which it is a part of, has 64 KiB after base64 twice.
const (
	MaxSealedBytes    = 24 << 10
	MaxSecrets        = 64
	MaxSecretRemovals = 256
)

// Secrets are those of one runtime. What is in neither list is left alone: like a module, a Secret goes only when that
// is said.
type Secrets struct {
	Secrets []RuntimeSecret `json:"secrets"`
	// Removals are the names, as RuntimeSecret.At gives them, of those that are to go.
	Removals []string `json:"removals,omitempty"`
}

// RuntimeSecret is one Secret as it is to be in its runtime.
type RuntimeSecret struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Type      corev1.SecretType `json:"type,omitempty"`
	Data      map[string][]byte `json:"data"`

	// Module is the one that needs it, empty for none in particular, and Revision another with every other content. Both
	// stay in the control plane.
	Module   string `json:"-"`
	Revision string `json:"-"`
}

// At names the Secret in its runtime: "NAMESPACE/NAME".
func (s RuntimeSecret) At() string { return s.Namespace + "/" + s.Name }

// Check refuses what no agent writes: its own Secrets, those of the cluster's core, and those that Kubernetes makes.
// The error holds names only.
func (s RuntimeSecret) Check() error {
	if err := checkSecretName(s.Namespace, s.Name); err != nil {
		return err
	}
	if s.Type == corev1.SecretTypeServiceAccountToken || s.Type == corev1.SecretTypeBootstrapToken {
		return fmt.Errorf("secret %s: type %s is for Kubernetes to make", s.At(), s.Type)
	}
	return nil
}

func checkSecretName(namespace, name string) error {
	at := namespace + "/" + name
	own := strings.HasPrefix(name, "skr-agent") || strings.HasPrefix(name, "kyma-pull-")
	switch {
	case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("secret %.300q: want a namespace and a name that Kubernetes takes", at)
	case namespace == v1beta2.RuntimeNamespace && own:
		return fmt.Errorf("secret %s: such names are the agent's own: choose another", at)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("secret %s: namespace %s is the cluster's own: choose another", at, namespace)
	}
	return nil
}

// check refuses what is too much, unclear, or not for an agent to do.
func (s Secrets) check() error {
	if len(s.Secrets) > MaxSecrets || len(s.Removals) > MaxSecretRemovals {
		return fmt.Errorf("%d Secrets and %d removals, at most %d and %d", len(s.Secrets), len(s.Removals), MaxSecrets, MaxSecretRemovals)
	}
	seen := map[string]bool{}
	for _, one := range s.Secrets {
		if err := one.Check(); err != nil {
			return err
		}
		if seen[one.At()] {
			return fmt.Errorf("secret %s: is there twice", one.At())
		}
		seen[one.At()] = true
	}
	for _, at := range s.Removals {
		namespace, name, _ := strings.Cut(at, "/")
		if err := checkSecretName(namespace, name); err != nil {
			return err
		}
		if seen[at] {
			return fmt.Errorf("secret %s: is to be there and to go", at)
		}
	}
	return nil
}

// CheckRecipient reports whether Secrets can be encrypted to whom a runtime names: exactly an X25519 recipient of age.
func CheckRecipient(recipient string) error {
	_, err := recipientOf(recipient)
	return err
}

func recipientOf(text string) (*age.X25519Recipient, error) {
	const maxRecipientBytes = 100 // it has 62
	if len(text) > maxRecipientBytes {
		return nil, errors.New("recipient: want an X25519 recipient of age")
	}
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, errors.New("recipient: want an X25519 recipient of age")
	}
	return recipient, nil
}

// Named returns the name of the Secrets as they are sealed to a recipient. It is made of their revisions, not of their
// content: a digest of a short password would tell it.
func (s Secrets) Named(recipient string) string {
	lines := []string{recipient}
	for _, one := range sorted(s.Secrets) {
		lines = append(lines, strings.Join([]string{"keep", one.At(), one.Revision}, " "))
	}
	for _, at := range slices.Sorted(slices.Values(s.Removals)) {
		lines = append(lines, "remove "+at)
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

func sorted(secrets []RuntimeSecret) []RuntimeSecret {
	return slices.SortedFunc(slices.Values(secrets), func(a, b RuntimeSecret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// sealedContent is what is encrypted.
type sealedContent struct {
	Runtime string `json:"runtime"`
	Secrets
}

// Seal encrypts the Secrets of a runtime to its recipient. Equal Secrets give other bytes each time; compare revisions.
func (s Secrets) Seal(runtime, recipient string) (*Sealed, error) {
	to, err := recipientOf(recipient)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(sealedContent{Runtime: runtime, Secrets: Secrets{Secrets: sorted(s.Secrets), Removals: s.Removals}})
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
		return nil, fmt.Errorf("%d bytes when encrypted, at most %d: give the runtime smaller Secrets, or fewer", out.Len(), MaxSealedBytes)
	}
	return &Sealed{Recipient: recipient, Revision: s.Named(recipient), Data: out.Bytes()}, nil
}

// ageBytes is more than what age adds to the content for one recipient.
const ageBytes = 512

// Fitting returns those Secrets that can be sealed together, the small ones first, and names those that cannot with the
// reason: one that is too large costs itself and no other.
func (s Secrets) Fitting(runtime string) (Secrets, error) {
	fitting := Secrets{Removals: s.Removals}
	var problems []error
	if n := len(s.Removals); n > MaxSecretRemovals {
		fitting.Removals = s.Removals[:MaxSecretRemovals]
		problems = append(problems, fmt.Errorf("%d Secrets are to go, at most %d at once", n, MaxSecretRemovals))
	}
	left := MaxSealedBytes - ageBytes - encodedBytes(sealedContent{Runtime: runtime, Secrets: fitting})
	most := left
	sizes := make(map[string]int, len(s.Secrets))
	for _, one := range s.Secrets {
		sizes[one.At()] = encodedBytes(one) + 1
	}
	bySize := slices.SortedFunc(slices.Values(s.Secrets), func(a, b RuntimeSecret) int {
		return cmp.Or(cmp.Compare(sizes[a.At()], sizes[b.At()]), cmp.Compare(a.At(), b.At()))
	})
	for _, one := range bySize {
		size := sizes[one.At()]
		switch {
		case size > most:
			problems = append(problems, fmt.Errorf("secret %s: %d bytes when encoded, at most %d for all Secrets of a runtime: make it smaller", one.At(), size, most))
		case size > left:
			problems = append(problems, fmt.Errorf("secret %s: %d bytes when encoded, the others leave %d of %d: give the runtime smaller Secrets, or fewer", one.At(), size, left, most))
		case len(fitting.Secrets) == MaxSecrets:
			problems = append(problems, fmt.Errorf("secret %s: the runtime has %d others, which is the most", one.At(), MaxSecrets))
		default:
			fitting.Secrets = append(fitting.Secrets, one)
			left -= size
		}
	}
	return fitting, errors.Join(problems...)
}

func encodedBytes(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("secrets always encode: %v", err)) // they are made of text and bytes
	}
	return len(data)
}

// Open decrypts what was sealed to the identity for the runtime. Errors never hold content.
func (s *Sealed) Open(runtime string, identity *age.X25519Identity) (Secrets, error) {
	if len(s.Data) > MaxSealedBytes {
		return Secrets{}, fmt.Errorf("%d bytes when encrypted, at most %d", len(s.Data), MaxSealedBytes)
	}
	if s.Recipient != identity.Recipient().String() {
		return Secrets{}, errors.New("are encrypted to another key than this agent's: they come again once the control plane has read its report")
	}
	r, err := age.Decrypt(bytes.NewReader(s.Data), identity)
	if err != nil {
		return Secrets{}, fmt.Errorf("cannot be decrypted: %w", err)
	}
	plain, err := io.ReadAll(r) // no more than came in: age does not compress
	if err != nil {
		return Secrets{}, fmt.Errorf("cannot be decrypted: %w", err)
	}
	var content sealedContent
	if err := decodeStrict(plain, &content); err != nil {
		return Secrets{}, errors.New("cannot be decoded by this agent version") // the decoder's own words may quote
	}
	if content.Runtime != runtime {
		return Secrets{}, errors.New("are for another runtime")
	}
	return content.Secrets, content.check()
}
