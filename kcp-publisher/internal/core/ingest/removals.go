package ingest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// removalReasons contains the text of each removal reason for condition messages.
var removalReasons = map[removal.Reason]string{
	removal.FleetShare:       "the change removes modules from more runtimes than allowed at once",
	removal.ModuleCount:      "the change removes the module from more runtimes than allowed at once",
	removal.Restored:         "the control plane's record is older than the runtime's state, as after a restore",
	removal.NamespaceDeleted: "the namespace of the Kymas is being deleted",
}

func removalDecisions(r *v1beta2.RuntimeStatus) []v1beta2.ModuleRemoval {
	if r == nil {
		return nil
	}
	return r.Removals
}

// setRemovals sets the condition Removals to False while module removals wait for an approval.
func setRemovals(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	waiting := facts.Removals.HeldModules()
	switch {
	case len(waiting) > 0:
		set(v1beta2.ConditionRemovals, v1beta2.ReasonRemovalsHeld, heldMessage(waiting, facts.Removals.HeldReasons), false)
	case facts.Published != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionRemovals) != nil:
		set(v1beta2.ConditionRemovals, v1beta2.ReasonNoRemovalsHeld, "no removal waits for an approval", true)
	}
}

func heldMessage(waiting []string, held map[string]removal.Reason) string {
	what := "the removal of module " + waiting[0]
	switch {
	case waiting[0] == "":
		what = "the Kyma is deleted, and the removal of all modules"
	case len(waiting) > 1:
		what = "the removal of modules " + strings.Join(waiting, ", ")
	}
	return fmt.Sprintf("%s waits for an operator's approval: %s: see `kcp-publisher removals`", what,
		removalReasons[held[waiting[0]]])
}
