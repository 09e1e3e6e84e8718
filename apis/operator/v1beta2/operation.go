package v1beta2

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateLastOperation sets s.LastOperation if the state differs from the state in before. In the states Error and
// Warning, it also sets it if the text of the operation changed.
func (s *KymaStatus) UpdateLastOperation(before KymaStatus, operation string, now time.Time) {
	last := before.LastOperation
	trouble := s.State == StateError || s.State == StateWarning
	if before.State != s.State || trouble && (last == nil || last.Operation != operation) {
		s.LastOperation = &LastOperation{
			Operation: operation, LastUpdateTime: metav1.NewTime(now.Truncate(time.Second)),
		}
	}
}
