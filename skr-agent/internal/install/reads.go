package install

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// The agent reads these objects of other owners with its own account. The values describe the effect of a missing
// permission.
const (
	readAutoscalers    = "the agent reverts the replicas that an autoscaler sets"
	readStorageClasses = "a PersistentVolumeClaim that waits for its first Pod counts as not ready"
)

// recordRead records whether the agent's own account is allowed to read objects. It returns nil for the error of a
// missing permission, and other errors unchanged.
func (k *memo) recordRead(effect string, err error) error {
	if err == nil {
		delete(k.deniedReads, effect)
		return nil
	}
	if !account.LacksRight(err) {
		return err
	}
	if k.deniedReads == nil {
		k.deniedReads = map[string]string{}
	}
	k.deniedReads[effect] = err.Error()
	return nil
}

// deniedReadsOf returns the finding about missing permissions to read objects of other owners. It returns nil if no
// permission is missing and the Manifest does not report one.
func (k *memo) deniedReadsOf(m *v1beta2.Manifest) *outcome.Finding {
	if len(k.deniedReads) > 0 {
		var texts []string
		for _, effect := range slices.Sorted(maps.Keys(k.deniedReads)) {
			texts = append(texts, effect+", because "+k.deniedReads[effect])
		}
		return &outcome.Finding{
			Reason: v1beta2.ReasonReadForbidden, Message: strings.Join(texts, "; ") + ": grant this permission to the agent",
		}
	}
	before := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionRights)
	if before == nil || before.Reason != v1beta2.ReasonReadForbidden {
		return nil
	}
	return &outcome.Finding{
		OK: true, Reason: v1beta2.ReasonRightsReviewed, Message: "the agent can read the required objects",
	}
}
