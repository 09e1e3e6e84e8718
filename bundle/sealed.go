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

// Sealed contains a runtime's Secrets, encrypted for the runtime. A statement without Sealed leaves the runtime's
// Secrets unchanged.
//
// Source: age, https://age-encryption.org/v1.
type Sealed struct {
	// Recipient is the runtime's age recipient (public key).
	Recipient string `json:"recipient"`
	// Revision changes with the Secrets. It does not reveal their content.
	Revision string `json:"revision"`
	// Data is a file in the age format.
	Data []byte `json:"data"`
}

// Limits for sealed Secrets. They are part of an attestation, which is limited to 64 KiB.
const (
	MaxSealedBytes    = 24 << 10
	MaxSecrets        = 64
	MaxSecretRemovals = 256
)

// Secrets are one runtime's Secrets. The agent does not change other Secrets.
type Secrets struct {
	Secrets []RuntimeSecret `json:"secrets"`
	// Removals lists the Secrets to remove, as NAMESPACE/NAME.
	Removals []string `json:"removals,omitempty"`
}

// RuntimeSecret is a Secret that the agent writes in its runtime.
type RuntimeSecret struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Type      corev1.SecretType `json:"type,omitempty"`
	Data      map[string][]byte `json:"data"`

	// Module is the module that needs the Secret, or empty. Revision changes if the Secret's content changes.
	Module   string `json:"-"`
	Revision string `json:"-"`
}

// NamespacedName returns the name of the Secret in its runtime as "NAMESPACE/NAME".
func (s RuntimeSecret) NamespacedName() string { return s.Namespace + "/" + s.Name }

// Check refuses Secrets that agents never write: the agent's own Secrets, Secrets in system namespaces, and Secrets
// that Kubernetes creates. The error contains names only.
func (s RuntimeSecret) Check() error {
	if err := checkSecretName(s.Namespace, s.Name); err != nil {
		return err
	}
	if s.Type == corev1.SecretTypeServiceAccountToken || s.Type == corev1.SecretTypeBootstrapToken {
		return fmt.Errorf("secret %s: type %s is reserved for Kubernetes", s.NamespacedName(), s.Type)
	}
	return nil
}

func checkSecretName(namespace, name string) error {
	at := namespace + "/" + name
	own := strings.HasPrefix(name, "skr-agent") || strings.HasPrefix(name, "kyma-pull-")
	switch {
	case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("secret %.300q: must be a valid namespace and name", at)
	case namespace == v1beta2.RuntimeNamespace && own:
		return fmt.Errorf("secret %s: the name is reserved for the agent; choose another one", at)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("secret %s: namespace %s is reserved for the cluster; choose another one", at, namespace)
	}
	return nil
}

func (s Secrets) check() error {
	if len(s.Secrets) > MaxSecrets || len(s.Removals) > MaxSecretRemovals {
		return fmt.Errorf("%d Secrets and %d removals, must be at most %d and %d", len(s.Secrets), len(s.Removals),
			MaxSecrets, MaxSecretRemovals)
	}
	seen := map[string]bool{}
	for _, one := range s.Secrets {
		if err := one.Check(); err != nil {
			return err
		}
		if seen[one.NamespacedName()] {
			return fmt.Errorf("duplicate secret %s", one.NamespacedName())
		}
		seen[one.NamespacedName()] = true
	}
	for _, at := range s.Removals {
		namespace, name, _ := strings.Cut(at, "/")
		if err := checkSecretName(namespace, name); err != nil {
			return err
		}
		if seen[at] {
			return fmt.Errorf("secret %s is in both secrets and removals", at)
		}
	}
	return nil
}

// CheckRecipient returns an error if the text is not an X25519 age recipient.
func CheckRecipient(recipient string) error {
	_, err := parseRecipient(recipient)
	return err
}

func parseRecipient(text string) (*age.X25519Recipient, error) {
	const maxRecipientBytes = 100
	if len(text) > maxRecipientBytes {
		return nil, errors.New("recipient: must be an age X25519 recipient such as age1…")
	}
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, errors.New("recipient: must be an age X25519 recipient such as age1…")
	}
	return recipient, nil
}

// RevisionFor returns the Secrets' revision for a recipient. It does not include a digest of the content, because a
// digest of a short password would reveal the password.
func (s Secrets) RevisionFor(recipient string) string {
	lines := []string{recipient}
	for _, one := range sortSecrets(s.Secrets) {
		lines = append(lines, strings.Join([]string{"keep", one.NamespacedName(), one.Revision}, " "))
	}
	for _, at := range slices.Sorted(slices.Values(s.Removals)) {
		lines = append(lines, "remove "+at)
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

func sortSecrets(secrets []RuntimeSecret) []RuntimeSecret {
	return slices.SortedFunc(slices.Values(secrets), func(a, b RuntimeSecret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

type sealedContent struct {
	Runtime string `json:"runtime"`
	Secrets
}

// Seal encrypts a runtime's Secrets for its recipient. The output differs each time, so compare revisions instead.
func (s Secrets) Seal(runtime, recipient string) (*Sealed, error) {
	to, err := parseRecipient(recipient)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(sealedContent{
		Runtime: runtime, Secrets: Secrets{Secrets: sortSecrets(s.Secrets), Removals: s.Removals},
	})
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
		return nil,
			fmt.Errorf("the encrypted Secrets are %d bytes, must be at most %d: use fewer or smaller Secrets",
				out.Len(), MaxSealedBytes)
	}
	return &Sealed{Recipient: recipient, Revision: s.RevisionFor(recipient), Data: out.Bytes()}, nil
}

const (
	// ageBytes is an upper bound for age's overhead with one recipient.
	ageBytes = 512
	// maxRemovalsBytes limits the removals in one Sealed, so that they leave space for Secrets.
	maxRemovalsBytes = 4 << 10
)

// SelectFitting returns the Secrets and removals that fit into one Sealed document. It takes the smallest Secrets first.
// The error lists the Secrets that do not fit, and contains the number of removals that do not fit.
func (s Secrets) SelectFitting(runtime string) (Secrets, error) {
	fitting := Secrets{Removals: s.fittingRemovals()}
	var problems []error
	if all, now := len(s.Removals), len(fitting.Removals); now < all {
		problems = append(problems, fmt.Errorf("only %d of the %d Secrets to remove fit into one bundle: the "+
			"others are removed afterwards", now, all))
	}
	left := MaxSealedBytes - ageBytes - encodedBytes(sealedContent{Runtime: runtime, Secrets: fitting})
	most := left
	sizes := make(map[string]int, len(s.Secrets))
	for _, one := range s.Secrets {
		sizes[one.NamespacedName()] = encodedBytes(one) + 1
	}
	bySize := slices.SortedFunc(slices.Values(s.Secrets), func(a, b RuntimeSecret) int {
		return cmp.Or(cmp.Compare(sizes[a.NamespacedName()], sizes[b.NamespacedName()]),
			cmp.Compare(a.NamespacedName(), b.NamespacedName()))
	})
	for _, one := range bySize {
		size := sizes[one.NamespacedName()]
		switch {
		case size > most:
			problems = append(problems,
				fmt.Errorf(
					"secret %s: %d bytes when encoded, must be at most %d for all Secrets of a runtime: "+
						"make it smaller", one.NamespacedName(), size, most))
		case size > left:
			problems = append(problems,
				fmt.Errorf(
					"secret %s: %d bytes when encoded, but only %d of %d bytes are left: use fewer or smaller Secrets",
					one.NamespacedName(), size, left, most))
		case len(fitting.Secrets) == MaxSecrets:
			problems = append(problems,
				fmt.Errorf("secret %s: the runtime already has the maximum of %d Secrets", one.NamespacedName(), MaxSecrets))
		default:
			fitting.Secrets = append(fitting.Secrets, one)
			left -= size
		}
	}
	return fitting, errors.Join(problems...)
}

func (s Secrets) fittingRemovals() []string {
	bytes := 0
	for i, at := range s.Removals {
		if bytes += encodedBytes(at) + 1; i == MaxSecretRemovals || bytes > maxRemovalsBytes {
			return s.Removals[:i]
		}
	}
	return s.Removals
}

func encodedBytes(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("secrets always encode: %v", err)) // strings and bytes always encode
	}
	return len(data)
}

// Open decrypts the runtime's sealed Secrets with the identity. Errors never contain content.
func (s *Sealed) Open(runtime string, identity *age.X25519Identity) (Secrets, error) {
	if len(s.Data) > MaxSealedBytes {
		return Secrets{},
			fmt.Errorf("the encrypted Secrets are %d bytes, must be at most %d", len(s.Data), MaxSealedBytes)
	}
	if s.Recipient != identity.Recipient().String() {
		return Secrets{},
			errors.New(
				"encrypted for another agent's key: the control plane encrypts the Secrets again after it has " +
					"read this agent's report")
	}
	r, err := age.Decrypt(bytes.NewReader(s.Data), identity)
	if err != nil {
		return Secrets{}, fmt.Errorf("cannot be decrypted: %w", err)
	}
	plain, err := io.ReadAll(r) // the size is bounded because age does not compress
	if err != nil {
		return Secrets{}, fmt.Errorf("cannot be decrypted: %w", err)
	}
	var content sealedContent
	if err := decodeStrict(plain, &content); err != nil {
		// The decoder's error could quote a Secret.
		return Secrets{}, errors.New("cannot be decoded by this agent version")
	}
	if content.Runtime != runtime {
		return Secrets{}, errors.New("encrypted for another runtime")
	}
	return content.Secrets, content.check()
}
