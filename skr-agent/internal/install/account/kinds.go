package account

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
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// servedVersions returns a kind's served versions. The preferred version is first.
func (a *Account) servedVersions(gk schema.GroupKind) ([]string, error) {
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

// isNotStored reports whether a kind does not support the verb "list". Clients can only create objects of such kinds,
// for example a TokenReview.
func (a *Account) isNotStored(gvk schema.GroupVersionKind) bool {
	list, err := a.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") && !slices.Contains(r.Verbs, "list")
	})
}

// Scope reports whether a kind is namespaced. A gvk without a version matches any version of the kind. If an aggregated
// API server does not respond, its kinds are unknown.
func (a *Account) Scope(gvk schema.GroupVersionKind) (bool, error) {
	var versions []string
	if gvk.Version != "" {
		versions = append(versions, gvk.Version)
	}
	mapping, err := a.Client.RESTMapper().RESTMapping(gvk.GroupKind(), versions...)
	if meta.IsNoMatchError(err) {
		return false, unservedKind{gvk, a.Client.RESTMapper()}
	}
	if isUnavailableGroup(err) {
		return false, fmt.Errorf("%w: the API of group %s is currently not available", content.ErrUnknownKind, gvk.Group)
	}
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// isUnavailableGroup reports whether discovery failed for a single API group, because its APIService's server does not
// respond.
func isUnavailableGroup(err error) bool {
	var failed *apiutil.ErrResourceDiscoveryFailed
	if !errors.As(err, &failed) {
		return false
	}
	for _, one := range *failed {
		if !apierrors.IsServiceUnavailable(one) {
			return false
		}
	}
	return true
}

// Plural returns the resource name that URLs use for a kind. It returns false for an unknown kind.
func (a *Account) Plural(gvk schema.GroupVersionKind) (string, bool) {
	mapping, err := a.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", false // ignore it; the plan reports unknown kinds
	}
	return mapping.Resource.Resource, true
}

// ListError returns the reason why the API server cannot list a kind: an internal error, or a kind whose objects the
// API server never stores. It returns nil in all other cases.
func (a *Account) ListError(ctx context.Context, r v1beta2.Resource) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(object.GVKOf(r).GroupVersion().WithKind(r.Kind + "List"))
	switch err := a.Client.List(ctx, list, client.Limit(1)); {
	case apierrors.IsInternalError(err):
		return fmt.Errorf("list objects of this kind: %w", err)
	case (apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)) && a.isNotStored(object.GVKOf(r)):
		return render.ErrNotInstallable
	}
	return nil
}

// Hidden returns the reason why an object may still exist although its kind is not served: its CRD serves no version,
// or its aggregated API is not available. It returns "" if the kind does not exist, or if removed contains its CRD or
// APIService.
func (a *Account) Hidden(ctx context.Context, r v1beta2.Resource, removed object.Keys) (string, error) {
	if why, err := a.unavailableServer(ctx, r, removed); why != "" || err != nil {
		return why, err
	}
	if !guard.IsCustomGroup(r.Group) {
		return "", nil
	}
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList",
	})
	if err := a.Client.List(ctx, definitions); err != nil {
		return "", ignoreForbidden(err)
	}
	for n := range definitions.Items {
		d := &definitions.Items[n]
		if !isInGroup(d.Name, r.Group) || d.DeletionTimestamp != nil ||
			removed.Has(object.KeyOf(v1beta2.Resource{Name: d.Name, GroupVersionKind: object.CRDKind})) {
			continue
		}
		definition, err := a.Get(ctx, v1beta2.Resource{Name: d.Name, GroupVersionKind: object.CRDKind})
		if err != nil {
			return "", err
		}
		if definition != nil && object.Text(definition, "spec", "names", "kind") == r.Kind {
			return fmt.Sprintf("CustomResourceDefinition %s serves no version", d.Name), nil
		}
	}
	return "", nil
}

// isInGroup reports whether the CRD with this name, PLURAL.GROUP, defines a kind of the group.
func isInGroup(definition, group string) bool {
	_, defined, _ := strings.Cut(definition, ".")
	return defined == group
}

// unavailableServer returns a message if the group of an unserved kind belongs to an aggregated API server, and ""
// otherwise. If removed contains a CRD in the group, the API server itself serves the group, and no request is needed.
func (a *Account) unavailableServer(ctx context.Context, r v1beta2.Resource, removed object.Keys) (string, error) {
	for key := range removed {
		if guard.IsCRD(key.GroupKind()) && isInGroup(key.Name, r.Group) {
			return "", nil
		}
	}
	apiService := metav1.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	found, err := a.Get(ctx, v1beta2.Resource{GroupVersionKind: apiService, Name: r.Version + "." + r.Group})
	if err != nil || found == nil || removed.Has(guard.KeyOf(found)) {
		return "", ignoreForbidden(err)
	}
	if service, _, _ := unstructured.NestedMap(found.Object, "spec", "service"); service != nil {
		return fmt.Sprintf("the server of APIService %s is not available", found.GetName()), nil
	}
	return "", nil
}
