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
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/metadata"
)

// Values for secretChange.Action: the actions on one Secret.
const (
	actionNone   = "nothing"
	actionCreate = "create"
	actionUpdate = "update"
	// actionReplace means to delete the Secret and create it again, because the API server does not update the data of
	// immutable Secrets or the type of a Secret.
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
	isSame := live.Type == next.Type && equal(live.Data, next.Data)
	if !isSame && !isOwned(live, known) {
		return secretChange{},
			reason.Errorf(reason.Conflict,
				"the existing Secret belongs to another owner; delete it, or choose another name in the control plane")
	}
	if !isSame && (live.Type != next.Type || live.Immutable != nil && *live.Immutable) {
		return secretChange{actionReplace, next}, nil
	}
	updated := live.DeepCopy()
	ownLabels, _ := metadata.Own(live.ManagedFields)
	updated.Labels = metadata.Merge(live.Labels, labels, ownLabels)
	if isSame && maps.Equal(live.Labels, updated.Labels) {
		return secretChange{Action: actionNone}, nil
	}
	updated.Data = next.Data
	return secretChange{actionUpdate, updated}, nil
}

func isOwned(have *corev1.Secret, known types.UID) bool {
	return have.Labels[v1beta2.LabelSealed] == v1beta2.True || known != "" && have.UID == known
}

func equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
