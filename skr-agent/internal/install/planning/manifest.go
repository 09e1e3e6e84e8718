package planning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Installed reports whether a Manifest's current generation was applied completely.
func Installed(m *v1beta2.Manifest) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == m.Generation
}

// IsActive reports whether the agent installs a Manifest's module.
func IsActive(records record.Store, m *v1beta2.Manifest) bool {
	return m.DeletionTimestamp.IsZero() && !records.IsUnmanaged(m) &&
		m.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True
}

// IsLastApplied reports whether the requested version was applied completely and no other apply has started.
func IsLastApplied(m *v1beta2.Manifest) bool {
	applied := record.ReadUnverified(m).Applied
	return applied != nil && applied.InProgress == "" && applied.Digest == record.RequestedVersion(m).Digest
}

// IsBegun reports whether the agent has started but not completed applying a Manifest's content.
func IsBegun(m *v1beta2.Manifest) bool {
	applied := record.ReadUnverified(m).Applied
	return applied != nil && applied.InProgress != "" && applied.InProgress == record.RequestedVersion(m).Digest
}

// HasWrongRecord reports whether the applied version in the Manifest's record differs from the requested version, for
// example in its values, or is not applied completely.
func HasWrongRecord(m *v1beta2.Manifest) bool {
	return record.ReadUnverified(m).Applied != nil && !IsLastApplied(m)
}

// CompletedJobs returns the Jobs and Pods that are recorded as completed for the Manifest's version.
func CompletedJobs(m *v1beta2.Manifest) object.Keys {
	recorded := recordedJobs(m)
	completed := keysOf(object.JobKind, recorded.Jobs)
	maps.Copy(completed, keysOf(object.PodKind, recorded.Pods))
	return completed
}

// StartedJobs returns the Jobs with a TTL that are recorded as started, but not as completed, for the Manifest's
// version.
func StartedJobs(m *v1beta2.Manifest) object.Keys {
	return keysOf(object.JobKind, recordedJobs(m).Started)
}

func recordedJobs(m *v1beta2.Manifest) record.CompletedJobs {
	recorded := record.ReadUnverified(m).CompletedJobs
	if recorded == nil || recorded.Version != JobVersion(m) {
		return record.CompletedJobs{}
	}
	return *recorded
}

// keysOf returns the keys of a kind's objects. The names have the format NAMESPACE/NAME.
func keysOf(kind schema.GroupKind, names []string) object.Keys {
	keys := object.Keys{}
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		keys[object.KeyIn(kind, namespace, name)] = struct{}{}
	}
	return keys
}

// JobVersion returns the digest of the version whose Jobs run: the version that is being applied, or the last applied
// version.
func JobVersion(m *v1beta2.Manifest) string {
	switch applied := record.ReadUnverified(m).Applied; {
	case applied == nil:
		return record.RequestedVersion(m).Digest
	case applied.InProgress != "":
		return applied.InProgress
	default:
		return applied.Digest
	}
}

// WantedDigest returns the digest of the requested version.
func WantedDigest(m *v1beta2.Manifest) string {
	text, err := json.Marshal(record.RequestedVersion(m))
	if err != nil {
		return ""
	}
	return digest.FromBytes(text).Encoded()
}

// wasRecreated reports whether the agent has already recreated an object for the Manifest's version. The agent
// recreates an object only once per version, so that it does not delete the object repeatedly.
func wasRecreated(m *v1beta2.Manifest, uid types.UID) bool {
	recreated := record.ReadUnverified(m).Recreated
	return recreated != nil && recreated.Version == WantedDigest(m) && !slices.Contains(recreated.Objects, uid)
}

// ClaimedByOther returns a conflict if another Manifest owns an object in the plan. If both Manifests have the object
// in their inventories, the older Manifest owns it. takes contains the objects that other Manifests do not need
// anymore. ClaimedByOther also compares the default CRs of the Manifests.
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
			return fmt.Sprintf("%s already belongs to module %s: remove it from one of the two modules, or declare its "+
				"move with the annotations %s and %s", k, other.Module(), v1beta2.AnnotationMovesTo,
				v1beta2.AnnotationMovesFrom)
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

// IsAbandoned reports whether the annotation owned-by on an object names another Manifest that does not contain the
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

// Input returns a string that is equal for two plans with the same inputs.
func Input(m *v1beta2.Manifest, by object.Owner) string {
	return fmt.Sprintf("%s %d %t %q %q %q", m.UID, m.Generation, m.DeletionTimestamp.IsZero(),
		m.Annotations[v1beta2.AnnotationImages], m.Annotations[v1beta2.AnnotationValues], by)
}
