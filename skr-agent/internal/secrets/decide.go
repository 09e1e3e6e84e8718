package secrets

import (
	"bytes"
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Values of Change.What: the actions on one Secret.
const (
	Nothing = "nothing"
	Create  = "create"
	Update  = "update"
	// Replace means to delete the Secret and create it again, because the API server does not update immutable Secrets
	// or the type of a Secret.
	Replace = "replace"
)

// Change is an action on one Secret. Secret is the object to write. It is nil if nothing must be written.
type Change struct {
	What   string
	Secret *corev1.Secret
}

// Decide returns the change from the existing Secret, which can be nil, to the wanted Secret. It returns an error if
// the existing Secret has another owner.
//
// The agent owns a Secret with the agent's label, with the known UID, or with exactly the wanted content. A user who
// removes the label thus cannot take the Secret over.
func Decide(want bundle.RuntimeSecret, have *corev1.Secret, known types.UID) (Change, error) {
	labels := map[string]string{}
	maps.Copy(labels, want.Labels)
	labels[v1beta2.LabelSealed] = v1beta2.True
	next := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name, Labels: labels},
		Type:       cmp.Or(want.Type, corev1.SecretTypeOpaque), Data: want.Data,
	}
	if have == nil {
		return Change{Create, next}, nil
	}
	if !isOurs(have, known) && (have.Type != next.Type || !equal(have.Data, next.Data)) {
		return Change{},
			reason.Errorf(reason.Conflict,
				"the existing Secret belongs to another owner; delete it, or choose another name in the control plane")
	}
	if have.Type != next.Type || have.Immutable != nil && *have.Immutable {
		if have.Type == next.Type && equal(have.Data, next.Data) && have.Labels[v1beta2.LabelSealed] == v1beta2.True {
			return Change{What: Nothing}, nil
		}
		return Change{Replace, next}, nil
	}
	updated := have.DeepCopy()
	if updated.Labels == nil {
		updated.Labels = map[string]string{}
	}
	maps.Copy(updated.Labels, labels)
	if equal(have.Data, next.Data) && maps.Equal(have.Labels, updated.Labels) {
		return Change{What: Nothing}, nil
	}
	updated.Data = next.Data
	return Change{Update, updated}, nil
}

func isOurs(have *corev1.Secret, known types.UID) bool {
	return have.Labels[v1beta2.LabelSealed] == v1beta2.True || known != "" && have.UID == known
}

func equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
