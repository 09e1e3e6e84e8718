package rollout

import (
	"fmt"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// OfflineTooSoon returns a message if a course counts healthy runtimes as offline, empty otherwise. quiet is the
// longest time between two reports of a healthy runtime.
func OfflineTooSoon(course fleet.Course, quiet time.Duration) string {
	if course.OfflineAfter.Duration > quiet {
		return ""
	}
	return fmt.Sprintf(
		"spec.offlineAfter is %s, and a runtime that works may be heard %s apart: rollouts count it as offline, and "+
			"wait for its reports; set more than that, or let agents report "+
			"more often with --agent-report-interval", course.OfflineAfter.Duration, quiet)
}
