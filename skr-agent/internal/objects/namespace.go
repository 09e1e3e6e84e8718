package objects

import (
	"context"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// labelInterval is the interval between two checks of the namespace's labels, which the agent does not watch.
const labelInterval = time.Minute

// appliedLabels contains the labels that the agent last set on its namespace, and the time of this change.
type appliedLabels struct {
	labels    map[string]string
	changedAt time.Time
}

// labelNamespace sets the labels of the agent's namespace: the label managed-by, and the labels in the bundle's
// settings.
func (s *Syncer) labelNamespace(ctx context.Context, settings map[string]string, now time.Time) error {
	want := mergeEntries(map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}, settings)
	if s.Label == nil || maps.Equal(want, s.labels.labels) && now.Before(s.labels.changedAt.Add(labelInterval)) {
		return nil
	}
	err := s.Label(ctx, want)
	if apierrors.IsForbidden(err) && len(settings) == 0 {
		err = nil // without labels in the bundle, the permission is optional
	}
	if err != nil {
		return err
	}
	s.labels = appliedLabels{want, now}
	return nil
}
