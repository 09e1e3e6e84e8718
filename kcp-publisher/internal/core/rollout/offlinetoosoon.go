package rollout

import (
	"fmt"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// OfflineAfterProblem returns a message if spec.offlineAfter of a rollout is so short that healthy runtimes would count
// as offline. Otherwise, it returns "". maxQuiet is the longest time between two reports from a healthy runtime.
func OfflineAfterProblem(course fleet.Course, maxQuiet time.Duration) string {
	if course.OfflineAfter.Duration > maxQuiet {
		return ""
	}
	return fmt.Sprintf(
		"spec.offlineAfter is %s, but reports from a healthy runtime can be %s apart: rollouts would count it as "+
			"offline; increase spec.offlineAfter, or decrease --agent-report-interval", course.OfflineAfter.Duration,
		maxQuiet)
}
