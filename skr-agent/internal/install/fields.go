package install

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// fieldsOf returns the finding about unknown fields in the objects of a plan. The API server would refuse an object
// with such a field, so the agent applies the object without the field. fieldsOf returns nil if no field is unknown and
// the Manifest does not have the condition Fields.
func (i *Installer) fieldsOf(m *v1beta2.Manifest, p planning.Plan) *outcome.Finding {
	before := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionFields)
	if len(p.Ignored) == 0 {
		if before == nil {
			return nil
		}
		return &outcome.Finding{OK: true, Reason: v1beta2.ReasonFieldsKnown, Message: "the objects have no unknown fields"}
	}
	found := &outcome.Finding{Reason: v1beta2.ReasonUnknownFields, Message: outcome.Clip("ignored " + excerpt.FirstFew(p.Ignored))}
	if before == nil || before.Message != found.Message {
		i.events.Eventf(m, nil, "Warning", found.Reason, "Install", "%s", found.Message)
	}
	return found
}

// keepLive returns copies of objects in which ignored fields have their live values. In autoscaled workloads,
// spec.replicas also has its live value.
func (i *Installer) keepLive(
	ctx context.Context, a *account.Account, stage []*unstructured.Unstructured, p planning.Plan,
) ([]*unstructured.Unstructured, error) {
	kept, dropped := slices.Clone(stage), object.KeysOf(p.Prune)
	for n, o := range stage {
		pointers, err := planning.IgnoredFields(o)
		if err != nil {
			return nil, err
		}
		replicas, scalable, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if len(pointers) == 0 && !scalable || p.Absent.Has(guard.KeyOf(o)) {
			continue
		}
		live, err := a.Get(ctx, object.ResourceOf(o))
		if live == nil || err != nil {
			if err != nil && !account.IsUnconverted(err) {
				return nil, err
			}
			// Skip a missing or unreadable object. If it is unreadable, applying it returns the same error.
			continue
		}
		if now := object.Integer(live, 1, "spec", "replicas"); scalable && now != replicas {
			scaled, err := i.actors[""].IsAutoscaled(ctx, object.ResourceOf(o), now, dropped)
			if err != nil {
				return nil, err
			}
			if scaled {
				pointers = append(pointers, planning.Pointer{"spec", "replicas"})
			}
		}
		if len(pointers) == 0 {
			continue
		}
		kept[n] = o.DeepCopy()
		for _, p := range pointers {
			planning.TakeLive(kept[n], live, p, i.FieldManager)
		}
	}
	return kept, nil
}
