package account

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// An object is identified by its group, kind, namespace and name. Its API version can change: a version can be
// removed, and a conversion webhook can fail for one version. Reads and deletions therefore use any working version,
// starting with the applied one.

// inAnyVersion calls the function do with the API version in r. If the call fails because of this version, inAnyVersion
// calls the function with the served versions until one works. It returns ErrAbsentKind if the API server does not
// serve the kind.
//
// Between the first call and the discovery, the API server can begin to serve the version, for example because another
// client changes the CRD. The object may exist then, so inAnyVersion tries the version again. If no version works, the
// error does not mean that the object is missing.
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
	tried, wasUnserved := r.Version, IsUnserved(first)
	for _, version := range versions {
		if version == tried && !wasUnserved {
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
	if IsUnserved(first) && !a.isNotStored(object.GVKOf(r)) {
		return fmt.Errorf("%w: the API server lists the version %s but does not serve it yet", content.ErrUnknownKind,
			versions[0])
	}
	return first
}

// unservedVersion returns the error for an object in an unserved version if its kind is served in a different version.
func unservedVersion(served schema.GroupVersion) error {
	return fmt.Errorf("%w in this version: change apiVersion to %s", content.ErrUnknownKind, served)
}

// unservedKind is the error for a kind that the API server does not serve in the requested version. The method Error
// looks up another served version for the message. Most callers expect this error while a CRD is being installed and do
// not need the message.
type unservedKind struct {
	schema.GroupVersionKind
	mapper meta.RESTMapper
}

func (e unservedKind) Is(target error) bool { return target == content.ErrUnknownKind }

func (e unservedKind) Error() string {
	if served, err := e.mapper.RESTMapping(e.GroupKind()); err == nil && e.Version != "" {
		return unservedVersion(served.GroupVersionKind.GroupVersion()).Error()
	}
	return content.ErrUnknownKind.Error()
}

// ExplainUnserved returns a better error for an unserved version, because the API server's error does not name the
// cause. The RESTMapper still contains the version after a Kubernetes upgrade.
func (a *Account) ExplainUnserved(gk schema.GroupKind, err error) error {
	versions, discoverErr := a.servedVersions(gk)
	switch {
	case discoverErr != nil:
		return err
	case len(versions) == 0:
		return content.ErrUnknownKind
	}
	return unservedVersion(schema.GroupVersion{Group: gk.Group, Version: versions[0]})
}
