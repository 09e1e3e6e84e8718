package rollout

import (
	"fmt"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// OfflineTooSoon returns a message if a course's offlineAfter is so short that healthy runtimes would count as offline.
// Otherwise, it returns "". quiet is the longest time between two reports of a healthy runtime.
func OfflineTooSoon(course fleet.Course, quiet time.Duration) string {
	if course.OfflineAfter.Duration > quiet {
		return ""
	}
	return fmt.Sprintf(
		"spec.offlineAfter is %s, but a healthy runtime can take %s between two reports: rollouts would count it as "+
			"offline; increase spec.offlineAfter, or decrease --agent-report-interval", course.OfflineAfter.Duration,
		quiet)
}
