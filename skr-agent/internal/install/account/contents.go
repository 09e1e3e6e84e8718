package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Contents returns a few object names from a namespace. It ignores objects that Kubernetes creates automatically, and
// objects whose controller is in the namespace. If a kind cannot be listed, the result contains a message.
func (a *Account) Contents(ctx context.Context, namespace string) ([]string, error) {
	lists, err := a.discovery.ServerPreferredResources()
	var found []string
	if err != nil {
		if len(lists) == 0 {
			return nil, fmt.Errorf("discover the kinds in the cluster: %w", err)
		}
		found = append(found, "objects of an API that is not available ("+err.Error()+")")
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if !resource.Namespaced || !slices.Contains(resource.Verbs, "list") ||
				!slices.Contains(resource.Verbs, "delete") {
				continue
			}
			more, err := a.objectsOf(ctx, version.WithKind(resource.Kind), namespace)
			if err != nil {
				return nil, err
			}
			if found = append(found, more...); len(found) > excerpt.Few {
				return found, nil
			}
		}
	}
	return found, nil
}

// objectsOf returns the names of a few objects of a kind in a namespace.
func (a *Account) objectsOf(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var found []string
	for {
		err := a.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(100),
			client.Continue(list.Continue), withoutTokens(gvk))
		switch {
		case err == nil:
		case IsUnserved(err), apierrors.IsMethodNotSupported(err):
			return nil, nil
		case apierrors.IsForbidden(err), apierrors.IsInternalError(err):
			return []string{fmt.Sprintf("objects of kind %s that cannot be listed (%s)", gvk.Kind, apiMessage(err))}, nil
		default:
			return nil, fmt.Errorf("list objects of kind %s in namespace %s: %w", gvk.Kind, namespace, err)
		}
		for n := range list.Items {
			o := &list.Items[n]
			if !o.DeletionTimestamp.IsZero() || isMadeByKubernetes(gvk, o) {
				continue
			}
			controlled, err := a.isControlledInNamespace(o)
			if err != nil {
				return nil, err
			}
			if !controlled {
				found = append(found, object.KeyIn(gvk.GroupKind(), o.Namespace, o.Name).String())
			}
		}
		if list.Continue == "" || len(found) > excerpt.Few {
			return found, nil
		}
	}
}

// isControlledInNamespace reports whether the controller in an object's owner references is a namespaced object.
// Contents then lists the controller instead of the object.
func (a *Account) isControlledInNamespace(o *metav1.PartialObjectMetadata) (bool, error) {
	controller := metav1.GetControllerOfNoCopy(o)
	if controller == nil {
		return false, nil
	}
	// Do not use the version in the owner reference, because the API server may not serve this version anymore.
	kind := schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind()
	namespaced, err := a.Scope(kind.WithVersion(""))
	if err != nil && !errors.Is(err, content.ErrUnknownKind) {
		return false, fmt.Errorf("controller %s %s of %s: %w", controller.Kind, controller.Name, o.Name, err)
	}
	return err == nil && namespaced, nil
}

// isMadeByKubernetes reports whether Kubernetes or a common platform creates an object automatically.
func isMadeByKubernetes(gvk schema.GroupVersionKind, o *metav1.PartialObjectMetadata) bool {
	switch (schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}) {
	case schema.GroupKind{Kind: "Event"},
		schema.GroupKind{Group: "events.k8s.io", Kind: "Event"},
		schema.GroupKind{Kind: "Endpoints"},
		schema.GroupKind{
			Group: "discovery.k8s.io",
			Kind:  "EndpointSlice",
		},
		schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}:
		return true
	case schema.GroupKind{Kind: "ConfigMap"}:
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}, o.Name)
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return slices.Contains([]string{"default", "builder", "deployer"}, o.Name)
	case schema.GroupKind{Kind: "Secret"}:
		return isGenerated(o.Annotations)
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:
		return strings.HasPrefix(o.Name, "system:")
	}
	return gvk.Group == "metrics.k8s.io"
}

// isGenerated reports whether OpenShift created a Secret with a ServiceAccount's registry credentials.
//
// Source: OpenShift documentation, "Automatically generated image pull secrets".
func isGenerated(annotations map[string]string) bool {
	return annotations["kubernetes.io/service-account.name"] != "" &&
		annotations["openshift.io/token-secret.name"] != ""
}

// withoutTokens returns a list option that excludes ServiceAccount tokens. A filter on metadata is not possible,
// because metadata does not contain the type of a Secret.
func withoutTokens(gvk schema.GroupVersionKind) client.ListOption {
	if gvk.Group == "" && gvk.Kind == "Secret" {
		return client.MatchingFieldsSelector{
			Selector: fields.OneTermNotEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)),
		}
	}
	return client.MatchingFieldsSelector{Selector: fields.Everything()}
}
