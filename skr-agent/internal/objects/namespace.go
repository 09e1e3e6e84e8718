package objects

import (
	"context"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// labelInterval is how often it is looked whether the namespace has its labels. Nothing watches it.
const labelInterval = time.Minute

// labeling is what became of the last look at the namespace's labels.
type labeling struct {
	done map[string]string
	at   time.Time
}

// namespace keeps the labels of the agent's namespace: that of all that Kyma keeps, and those of the bundle's settings.
func (s *Syncer) namespace(ctx context.Context, settings map[string]string, now time.Time) error {
	want := with(map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}, settings)
	if s.Label == nil || maps.Equal(want, s.labels.done) && now.Before(s.labels.at.Add(labelInterval)) {
		return nil
	}
	err := s.Label(ctx, want)
	if apierrors.IsForbidden(err) && len(settings) == 0 {
		err = nil // nobody asked for more than the agent may do
	}
	if err != nil {
		return err
	}
	s.labels = labeling{want, now}
	return nil
}
