package v1beta2

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Operated updates LastOperation if the state changed, or the problem within the same state.
func (s *KymaStatus) Operated(before KymaStatus, operation string, now time.Time) {
	last := before.LastOperation
	trouble := s.State == StateError || s.State == StateWarning
	if before.State != s.State || trouble && (last == nil || last.Operation != operation) {
		s.LastOperation = &LastOperation{
			Operation: operation, LastUpdateTime: metav1.NewTime(now.Truncate(time.Second)),
		}
	}
}
