package v1beta2

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateLastOperation sets s.LastOperation to the operation if the state differs from the state in before. In the
// states Error and Warning, a change of the operation's text is sufficient.
func (s *KymaStatus) UpdateLastOperation(before KymaStatus, operation string, now time.Time) {
	last := before.LastOperation
	trouble := s.State == StateError || s.State == StateWarning
	if before.State != s.State || trouble && (last == nil || last.Operation != operation) {
		s.LastOperation = &LastOperation{
			Operation: operation, LastUpdateTime: metav1.NewTime(now.Truncate(time.Second)),
		}
	}
}
