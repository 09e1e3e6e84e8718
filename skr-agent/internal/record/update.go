package record

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// maxUpdates limits the number of attempts of Update. Each attempt after the first reads the Manifest again, because
// the copy was outdated.
const maxUpdates = 4

// Update changes the record of a Manifest in the cluster and in m, with one request. It sends no request if the record
// stays the same. Several parts of the agent write records, so a write of an outdated copy fails. Update then reads the
// Manifest again through the reader `uncached` and retries. If `uncached` is nil, it returns the conflict.
func (b Store) Update(
	ctx context.Context, c client.Client, uncached client.Reader, m *v1beta2.Manifest, change func(*Record),
	options ...client.PatchOption,
) error {
	for attempt := 1; ; attempt++ {
		next, r := m.DeepCopy(), b.Read(m)
		change(&r)
		if err := b.Set(next, r); err != nil {
			return err
		}
		if maps.Equal(next.Annotations, m.Annotations) {
			return nil
		}
		err := c.Patch(ctx, next, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), options...)
		if err == nil {
			next.DeepCopyInto(m)
			b.Read(m) // adds the revision to b.Revisions
			return nil
		}
		if !apierrors.IsConflict(err) || uncached == nil || attempt == maxUpdates {
			return err
		}
		current := &v1beta2.Manifest{}
		if err := uncached.Get(ctx, client.ObjectKeyFromObject(m), current); err != nil {
			return err
		}
		current.DeepCopyInto(m)
	}
}
