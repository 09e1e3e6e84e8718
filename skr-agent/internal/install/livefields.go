package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// keepLive returns copies of objects in which ignored fields have their live values. In autoscaled workloads,
// spec.replicas also has its live value. In an expanded PersistentVolumeClaim, the requested size has its live value,
// because Kubernetes does not shrink volumes.
func (ap *applier) keepLive(
	ctx context.Context, a *account.Account, known *memo, stage []*unstructured.Unstructured, p planning.Plan,
) ([]*unstructured.Unstructured, error) {
	kept, dropped := slices.Clone(stage), object.KeysOf(p.Prune)
	for n, o := range stage {
		pointers, err := content.IgnoredFields(o)
		if err != nil {
			return nil, err
		}
		replicas, scalable, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		isClaim := o.GroupVersionKind().GroupKind() == object.ClaimKind
		if len(pointers) == 0 && !scalable && !isClaim || p.Absent.Has(guard.KeyOf(o)) {
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
			scaled, err := ap.planner.accounts.Own().IsAutoscaled(ctx, object.ResourceOf(o), now, dropped)
			if err := known.recordRead(readAutoscalers, err); err != nil {
				return nil, err
			}
			if scaled {
				pointers = append(pointers, content.Pointer{"spec", "replicas"})
			}
		}
		if size := requestedSize(live); isClaim && size.Cmp(requestedSize(o)) > 0 {
			pointers = append(pointers, requestPath)
		}
		if len(pointers) == 0 {
			continue
		}
		kept[n] = o.DeepCopy()
		for _, p := range pointers {
			planning.TakeLive(kept[n], live, p, ap.fieldManager)
		}
	}
	return kept, nil
}

var requestPath = content.Pointer{"spec", "resources", "requests", "storage"}

// requestedSize returns the requested size of a PersistentVolumeClaim, or 0 if it is missing or invalid.
func requestedSize(claim *unstructured.Unstructured) resource.Quantity {
	value, _, _ := unstructured.NestedFieldNoCopy(claim.Object, requestPath...)
	size, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return resource.Quantity{}
	}
	return size
}
