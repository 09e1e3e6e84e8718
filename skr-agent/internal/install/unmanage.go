package install

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// unmanage removes the agent's labels and annotations from the module's objects. It does not delete the objects.
func (d *deleter) unmanage(ctx context.Context, m *v1beta2.Manifest) error {
	a, objects, released := d.planner.accounts.Of(m), m.Status.Synced, d.planner.records.Read(m).Released
	defaultCR, ok := d.planner.defaultCR(m)
	if ok {
		objects = object.Union(objects, []v1beta2.Resource{defaultCR})
	}
	for _, r := range objects {
		o, err := a.Metadata(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if o == nil || !d.planner.owner(m).IsAnnotatedOwner(o) {
			continue
		}
		if released {
			if err := a.GiveBack(ctx, r, d.fieldManager); err != nil {
				return fmt.Errorf("return %s to lifecycle-manager: %w", object.KeyOf(r), err)
			}
			if ok && object.KeyOf(r) == object.KeyOf(defaultCR) {
				if err := a.ReleaseDefaultCR(ctx, o); err != nil {
					return fmt.Errorf("return %s to lifecycle-manager: %w", object.KeyOf(r), err)
				}
			}
			continue
		}
		if err := a.Unmark(ctx, o); err != nil {
			return fmt.Errorf("remove the agent's labels and annotations from %s: %w", object.KeyOf(r), err)
		}
	}
	return nil
}
