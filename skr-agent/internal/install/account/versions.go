package account

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// An object is identified by its group, kind, namespace and name. Its API version can change: a version can be
// removed, and a conversion webhook can fail for one version. Reads and deletions therefore use any working version,
// starting with the applied one.

// inAnyVersion calls do with the recorded version of an object, and then with other served versions until one works.
// It returns ErrAbsentKind if the API server does not serve the kind.
func (a *Account) inAnyVersion(r v1beta2.Resource, do func(v1beta2.Resource) error) error {
	first := do(r)
	if !IsUnserved(first) && !IsUnconverted(first) {
		return first
	}
	versions, err := a.servedVersions(schema.GroupKind{Group: r.Group, Kind: r.Kind})
	if err != nil {
		return fmt.Errorf("discover the served versions of %s: %w", r.Kind, err)
	}
	if len(versions) == 0 {
		return ErrAbsentKind
	}
	for _, version := range versions {
		if version == r.Version {
			continue
		}
		r.Version = version
		err := do(r)
		if !IsUnserved(err) && !IsUnconverted(err) {
			return err
		}
		if IsUnserved(first) {
			first = err
		}
	}
	return first
}
