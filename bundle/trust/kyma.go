package trust

import (
	"fmt"
	"strings"
)

// Kyma identifies the Kyma in the control plane that a runtime belongs to. It is zero in documents from versions before
// 0.1.0.
type Kyma struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// UID is the UID of the Kyma object, or empty if unknown.
	UID string `json:"uid,omitempty"`
}

const (
	// Source: Kubernetes, "Object Names and IDs": a DNS subdomain name has at most 253 characters.
	maxKymaNameBytes = 253
	maxKymaUIDBytes  = 128
	// DefaultKymaNamespace is a Kyma's default namespace.
	DefaultKymaNamespace = "kcp-system"
)

// ParseKyma parses [NAMESPACE/]NAME.
func ParseKyma(text string) (Kyma, error) {
	k := Kyma{Namespace: DefaultKymaNamespace, Name: text}
	if namespace, name, found := strings.Cut(text, "/"); found {
		k.Namespace, k.Name = namespace, name
	}
	if k.Name == "" || k.Namespace == "" {
		return Kyma{}, fmt.Errorf("Kyma %q: must be [NAMESPACE/]NAME", text)
	}
	return k, k.Check()
}

// Check returns an error if the namespace, name or UID is invalid.
func (k Kyma) Check() error {
	for _, part := range []struct {
		field, value string
		most         int
	}{{"namespace", k.Namespace, maxKymaNameBytes}, {"name", k.Name, maxKymaNameBytes},
		{"uid", k.UID, maxKymaUIDBytes}} {
		if len(part.value) > part.most {
			return fmt.Errorf("%s: %d bytes, must be at most %d", part.field, len(part.value), part.most)
		}
		if strings.Trim(part.value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") != "" {
			return fmt.Errorf("%s: must contain only letters, digits, '.' and '-'", part.field)
		}
	}
	return nil
}

// IsZero reports whether all fields are empty.
func (k Kyma) IsZero() bool { return k == Kyma{} }

// SameName reports whether two Kymas have the same namespace and name. If one of them has no namespace, only the names
// must be equal.
func (k Kyma) SameName(other Kyma) bool {
	return k.Name == other.Name && (k.Namespace == other.Namespace || k.Namespace == "" || other.Namespace == "")
}

// Matches reports whether k and other can be the same Kyma. They must have the same name. If both have a UID, they must
// have the same UID.
func (k Kyma) Matches(other Kyma) bool {
	return k.SameName(other) && (k.UID == other.UID || k.UID == "" || other.UID == "")
}

// String returns NAMESPACE/NAME, followed by the UID if it is known.
func (k Kyma) String() string {
	text := k.Name
	if k.Namespace != "" {
		text = k.Namespace + "/" + k.Name
	}
	if k.UID != "" {
		text += " (UID " + k.UID + ")"
	}
	return text
}
