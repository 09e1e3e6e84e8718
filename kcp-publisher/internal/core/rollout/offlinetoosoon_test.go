package rollout

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestOfflineAfterShorterThanReportIntervalIsReported(t *testing.T) {
	const quiet = 5*time.Minute + 30*time.Second
	for offlineAfter, tooSoon := range map[time.Duration]bool{0: true, 2 * time.Minute: true, quiet: true,
		quiet + time.Second: false, 15 * time.Minute: false} {
		why := OfflineAfterProblem(fleet.Course{OfflineAfter: metav1.Duration{Duration: offlineAfter}}, quiet)
		if (why != "") != tooSoon || tooSoon &&
			!strings.Contains(why, "offlineAfter is "+offlineAfter.String()+",") {
			t.Errorf("offlineAfter %s: got message %q, want a message %t", offlineAfter, why, tooSoon)
		}
	}
}
