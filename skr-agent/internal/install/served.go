package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// An object is identified by its group, kind, namespace and name. Its API version can change: a version can be
// removed, and a conversion webhook can fail for one version. Reads and deletions therefore use any working version,
// starting with the applied one.

// inAnyVersion calls do with the recorded version of an object, and then with other served versions until one works.
// It returns errAbsentKind if the API server does not serve the kind.
func (a *actor) inAnyVersion(r v1beta2.Resource, do func(v1beta2.Resource) error) error {
	first := do(r)
	if !isUnserved(first) && !isUnconverted(first) {
		return first
	}
	versions, err := a.servedVersions(schema.GroupKind{Group: r.Group, Kind: r.Kind})
	if err != nil {
		return fmt.Errorf("discover the served versions of %s: %w", r.Kind, err)
	}
	if len(versions) == 0 {
		return errAbsentKind
	}
	for _, version := range versions {
		if version == r.Version {
			continue
		}
		r.Version = version
		err := do(r)
		if !isUnserved(err) && !isUnconverted(err) {
			return err
		}
		if isUnserved(first) {
			first = err
		}
	}
	return first
}

var errAbsentKind = errors.New("the API server does not serve this kind in any version")

// isUnserved reports whether an error means that a version or kind is not served.
func isUnserved(err error) bool {
	if err == nil {
		return false
	}
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// isUnconverted reports whether the API server may have failed to convert a stored object to the requested version.
func isUnconverted(err error) bool { return apierrors.IsInternalError(err) }

// servedVersions returns the served versions of a kind, preferred version first.
func (a *actor) servedVersions(gk schema.GroupKind) ([]string, error) {
	groups, err := a.discovery.ServerGroups()
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, group := range groups.Groups {
		if group.Name != gk.Group {
			continue
		}
		for _, version := range group.Versions {
			list, err := a.discovery.ServerResourcesForGroupVersion(version.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(list.APIResources,
				func(r metav1.APIResource) bool { return r.Kind == gk.Kind && !strings.Contains(r.Name, "/") }) {
				versions = append(versions, version.Version)
			}
		}
	}
	return versions, nil
}

// hidden returns the reason why an object may still exist although its kind is not served: its CRD serves no version,
// or its aggregated API is not available. It returns "" if the kind does not exist.
func (i *Installer) hidden(ctx context.Context, r v1beta2.Resource) (string, error) {
	apiService := metav1.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	found, err := i.actors[""].get(ctx, v1beta2.Resource{GroupVersionKind: apiService, Name: r.Version + "." + r.Group})
	if err != nil {
		return "", ignoreForbidden(err)
	}
	if found != nil {
		if service, _, _ := unstructured.NestedMap(found.Object, "spec", "service"); service != nil {
			return fmt.Sprintf("the server of APIService %s is not available", found.GetName()), nil
		}
	}
	if !guard.IsCustom(r.Group) {
		return "", nil
	}
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList",
	})
	if err := i.cluster.List(ctx, definitions); err != nil {
		return "", ignoreForbidden(err)
	}
	for n := range definitions.Items {
		d := &definitions.Items[n]
		if !strings.HasSuffix(d.Name, "."+r.Group) || d.DeletionTimestamp != nil {
			continue
		}
		definition, err := i.actors[""].get(ctx, v1beta2.Resource{Name: d.Name, GroupVersionKind: object.CRDKind})
		if err != nil {
			return "", err
		}
		if definition != nil && object.Text(definition, "spec", "names", "kind") == r.Kind {
			return fmt.Sprintf("CustomResourceDefinition %s serves no version", d.Name), nil
		}
	}
	return "", nil
}

// unlistable returns the reason why the API server cannot list a kind, or nil if the watch of this kind works. It sends
// its own list request, because the watch retries without reporting an error.
func (i *Installer) unlistable(ctx context.Context, a *actor, r v1beta2.Resource) error {
	if !i.watches.unsynced(r) {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(object.GVKOf(r).GroupVersion().WithKind(r.Kind + "List"))
	switch err := a.cluster.List(ctx, list, client.Limit(1)); {
	case apierrors.IsInternalError(err):
		return fmt.Errorf("list objects of this kind: %w", err)
	case (apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)) && a.isNotStored(object.GVKOf(r)):
		return render.ErrNotInstallable
	}
	return nil
}

// isNotStored reports whether the API server serves a kind without the verb list. Clients only create such objects, for
// example a TokenReview.
func (a *actor) isNotStored(gvk schema.GroupVersionKind) bool {
	list, err := a.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") && !slices.Contains(r.Verbs, "list")
	})
}

// isAbsent reports whether the error of a read means that the object does not exist. This includes kinds that cannot be
// read, such as TokenReview, because the API server never stores their objects.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
