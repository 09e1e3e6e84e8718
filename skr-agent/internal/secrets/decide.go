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

// Values for secretChange.Action: the actions on one Secret.
const (
	actionNone   = "nothing"
	actionCreate = "create"
	actionUpdate = "update"
	// actionReplace means to delete the Secret and create it again, because the API server does not update immutable
	// Secrets or the type of a Secret.
	actionReplace = "replace"
)

// secretChange is an action on one Secret. Secret is the object to write, or nil if nothing must be written.
type secretChange struct {
	Action string
	Secret *corev1.Secret
}

// decide returns the change from the live Secret, which can be nil, to the wanted Secret. It returns an error if the
// live Secret has another owner. The agent owns a Secret with the agent's label, with the known UID, or with exactly
// the wanted content. Therefore, a user cannot take over the Secret by removing the label.
func decide(wanted bundle.RuntimeSecret, live *corev1.Secret, known types.UID) (secretChange, error) {
	labels := map[string]string{}
	maps.Copy(labels, wanted.Labels)
	labels[v1beta2.LabelSealed] = v1beta2.True
	next := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name, Labels: labels},
		Type:       cmp.Or(wanted.Type, corev1.SecretTypeOpaque), Data: wanted.Data,
	}
	if live == nil {
		return secretChange{actionCreate, next}, nil
	}
	if !isOwned(live, known) && (live.Type != next.Type || !equal(live.Data, next.Data)) {
		return secretChange{},
			reason.Errorf(reason.Conflict,
				"the existing Secret belongs to another owner; delete it, or choose another name in the control plane")
	}
	if live.Type != next.Type || live.Immutable != nil && *live.Immutable {
		if live.Type == next.Type && equal(live.Data, next.Data) && live.Labels[v1beta2.LabelSealed] == v1beta2.True {
			return secretChange{Action: actionNone}, nil
		}
		return secretChange{actionReplace, next}, nil
	}
	updated := live.DeepCopy()
	if updated.Labels == nil {
		updated.Labels = map[string]string{}
	}
	maps.Copy(updated.Labels, labels)
	if equal(live.Data, next.Data) && maps.Equal(live.Labels, updated.Labels) {
		return secretChange{Action: actionNone}, nil
	}
	updated.Data = next.Data
	return secretChange{actionUpdate, updated}, nil
}

func isOwned(have *corev1.Secret, known types.UID) bool {
	return have.Labels[v1beta2.LabelSealed] == v1beta2.True || known != "" && have.UID == known
}

func equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
