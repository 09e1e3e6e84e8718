package install

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// recreate deletes the objects to recreate. It returns a reason to wait while they still exist.
func (dr *dryRunner) recreate(ctx context.Context, m *v1beta2.Manifest, p planning.Plan) (string, error) {
	if len(p.Recreate) == 0 {
		return "", nil
	}
	var names []string
	var uids []types.UID
	for _, r := range p.Recreate {
		o, err := dr.planner.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return "", err
		}
		if o != nil && o.DeletionTimestamp.IsZero() {
			names, uids = append(names, object.KeyOf(r).String()), append(uids, o.UID)
		}
	}
	if len(names) > 0 {
		text := excerpt.FirstFew(names)
		log.FromContext(ctx).Info("recreating objects whose fields cannot be changed", "module", m.Module(), "version",
			m.Spec.Version, "objects", text)
		dr.events.Eventf(m, nil, "Normal", v1beta2.ReasonRecreating, "Recreate", "recreating %s for version %s", text,
			m.Spec.Version)
	}
	if err := dr.ledger.recordRecreation(ctx, m, uids); err != nil {
		return "", err
	}
	left, err := dr.deleter.deleteObjects(ctx, m, p.Recreate, object.KeysOf(p.Recreate), dr.planner.owner(m).Owns)
	if err != nil || len(left.objects) == 0 {
		return "", err
	}
	return "waiting for deletion before recreating: " + excerpt.FirstFew(left.texts), nil
}
