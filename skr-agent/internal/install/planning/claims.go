package planning

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// ClaimedByOther returns a conflict if another Manifest owns an object of the plan. If both Manifests have the object
// in their inventories, the older Manifest owns it. takes contains the objects that other Manifests do not need
// anymore. The default CRs of both Manifests are included.
func ClaimedByOther(
	m *v1beta2.Manifest, p Plan, others []*v1beta2.Manifest, defaultCR func(*v1beta2.Manifest) (v1beta2.Resource, bool),
	givesUp func(*v1beta2.Manifest, guard.Key) (bool, error),
) (takes map[guard.Key]string, conflict string, err error) {
	mine, want, own := object.KeysOf(m.Status.Synced), object.KeysOf(p.Inventory), object.Keys{}
	if p.DefaultCR != nil {
		own[guard.KeyOf(p.DefaultCR)] = struct{}{}
	}
	takes = map[guard.Key]string{}
	for _, other := range others {
		taken := func(k guard.Key) string {
			if record.HasUnverifiedRemoval(other) {
				return fmt.Sprintf("%s belongs to module %s, which is being removed: wait for its removal", k,
					other.Module())
			}
			return fmt.Sprintf("%s already belongs to module %s: remove it from one of the two modules", k,
				other.Module())
		}
		for _, r := range other.Status.Synced {
			k := object.KeyOf(r)
			if !want.Has(k) && !own.Has(k) {
				continue
			}
			if givenUp, err := givesUp(other, k); err != nil {
				return nil, "", err
			} else if givenUp {
				takes[k] = other.Namespace + "/" + other.Name
				continue
			}
			if want.Has(k) && (!mine.Has(k) || older(other, m)) || own.Has(k) {
				return nil, taken(k), nil
			}
		}
		r, ok := defaultCR(other)
		k := object.KeyOf(r)
		if !ok || !own.Has(k) && (!want.Has(k) || mine.Has(k)) {
			continue
		}
		if givenUp, err := givesUp(other, k); err != nil {
			return nil, "", err
		} else if givenUp {
			takes[k] = other.Namespace + "/" + other.Name
		} else if want.Has(k) {
			return nil, taken(k), nil
		}
	}
	return takes, "", nil
}

func older(a, b *v1beta2.Manifest) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// IsAbandoned reports whether the annotation owned-by of an object names another Manifest that does not contain the
// object anymore. An example is an object with the annotation helm.sh/resource-policy: keep.
func IsAbandoned(
	records record.Store, k guard.Key, live *metav1.PartialObjectMetadata, others []*v1beta2.Manifest,
) bool {
	for _, other := range others {
		if live.Annotations[v1beta2.AnnotationOwnedBy] != other.Namespace+"/"+other.Name {
			continue
		}
		isDefaultCR := other.Spec.Resource != nil && other.Spec.Resource.GetKind() == k.Kind &&
			other.Spec.Resource.GetName() == k.Name
		return IsActive(records, other) && Installed(other) && !isDefaultCR &&
			!object.KeysOf(other.Status.Synced).Has(k)
	}
	return false
}
