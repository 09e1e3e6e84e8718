package publicmodules

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// identity contains the object metadata that the test compares.
type identity struct {
	uid     types.UID
	version string
	isKept  bool // the object has helm.sh/resource-policy: keep
}

// temporary are the kinds whose objects Kubernetes or a simulated operator creates and deletes.
var temporary = []string{"Event", "Lease", "EndpointSlice", "Endpoints"}

// automanaged is the label on the APIServices that the API server creates for CRDs.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// inventory returns all objects in a runtime by kind, group, namespace and name.
func inventory(ctx context.Context, r *fleet.Runtime) (map[string]identity, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig())
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	all := map[string]identity{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(temporary, resource.Kind) {
				continue
			}
			if err := addObjects(ctx, r, version.WithKind(resource.Kind), all); err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Kind, err)
			}
		}
	}
	return all, nil
}

func addObjects(ctx context.Context, r *fleet.Runtime, kind schema.GroupVersionKind, all map[string]identity) error {
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := r.API.List(ctx, found)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err) {
		return nil // the kind was removed, or its objects cannot be listed
	}
	for _, o := range found.Items {
		if o.Labels[automanaged] != "" {
			continue
		}
		all[objectName(kind.GroupKind(), client.ObjectKeyFromObject(&o))] = identity{
			o.UID, o.ResourceVersion, o.Annotations["helm.sh/resource-policy"] == "keep",
		}
	}
	return err
}

// objectName returns KIND.GROUP NAMESPACE/NAME.
func objectName(kind schema.GroupKind, key client.ObjectKey) string {
	return kind.String() + " " + strings.TrimPrefix(key.String(), "/")
}

// missing returns the names in a that b does not contain.
func missing(a, b map[string]identity) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(name string) bool {
		_, found := b[name]
		return found
	})
}

// replaced returns an error for each named object that does not exist or that has a new UID.
func replaced(names []string, before, after map[string]identity) error {
	var problems []error
	for _, name := range names {
		switch now, found := after[name]; {
		case !found:
			problems = append(problems, fmt.Errorf("%s was deleted", name))
		case now.uid != before[name].uid:
			problems = append(problems, fmt.Errorf("%s was deleted and created again", name))
		}
	}
	return errors.Join(problems...)
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// changedIn returns the names of objects whose versions differ.
func changedIn(before, after map[string]identity) []string {
	var changed []string
	for name, now := range after {
		if before[name] != now {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}
