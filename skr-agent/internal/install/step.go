package install

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// step is the next step for a Manifest.
type step int

const (
	stepCheck   step = iota // check whether the objects are ready
	stepCorrect             // apply the changed objects, which corrects drift
	stepApply               // compare and apply all objects
)

// deleteRetryInterval is the interval between two attempts to delete a pruned object.
const deleteRetryInterval = 5 * time.Second

// nextStep returns the next step for a Manifest. The agent compares all objects after a change of the Manifest, after a
// start of the agent, and at the resync interval. It also does so while objects wait for deletion, or if the Manifest's
// record of the applied version is wrong.
func nextStep(m *v1beta2.Manifest, known memo, changed object.Keys, now time.Time, resync time.Duration) step {
	switch {
	case !planning.Installed(m), known.checkedGeneration != m.Generation,
		known.images != m.Annotations[v1beta2.AnnotationImages],
		known.values != m.Annotations[v1beta2.AnnotationValues],
		known.inherited != record.ReadUnverified(m).Inherited, now.Sub(known.checkedAt) >= resync,
		planning.HasWrongRecord(m) && !known.recordFailed:
		return stepApply
	case known.heldReason != "" && now.Sub(known.checkedAt) >= known.heldFor,
		known.handingOver != "" && now.Sub(known.checkedAt) >= known.handOverAgain:
		return stepApply
	case changed.Overlaps(known.dropped):
		// A changed object that this module does not need anymore may now belong to another module.
		return stepApply
	case len(changed) > 0:
		return stepCorrect
	}
	return stepCheck
}
