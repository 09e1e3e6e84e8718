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

// What is to be done to one Secret.
const (
	Nothing = "nothing"
	Create  = "create"
	Update  = "update"
	// Replace is to delete and create: types cannot be changed, nor can what is immutable.
	Replace = "replace"
)

// Change is what brings one Secret in line. Secret is as it is to be written.
type Change struct {
	What   string
	Secret *corev1.Secret
}

// Decide returns the change from what a runtime has, nil for nothing, to what it is to have. It is pure. A Secret that
// somebody else made is an error: nothing here may take it over. Ours is one that has the label, the one with the UID
// of which this agent knows that it was, empty for none, and one that already holds exactly what is sealed: whoever
// takes the label away changes nothing by it.
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
		return Change{}, reason.Errorf(reason.Conflict, "is there and did not come from the control plane: delete it, or choose another name in the control plane")
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
