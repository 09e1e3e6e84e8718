package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

const (
	// maxObjects limits the number of objects in the CEL variable "objects". pageObjects limits the objects in one API
	// server response.
	maxObjects, pageObjects = 500, 100
	// maxReadBytes limits the JSON size of one check's objects.
	maxReadBytes = 8 << 20
	// sharedFor, maxShared and maxSharedBytes limit the lifetime, number and size of cached reads.
	sharedFor, maxShared, maxSharedBytes = time.Second, 8, maxSmallBytes
)

type objectSelection struct {
	version         schema.GroupVersion
	kind, namespace string
	selector        string
}

// readCache caches objects for a short time, because several modules' checks often read the same objects. It is safe
// for concurrent use.
type readCache struct {
	mu          sync.Mutex // guards cachedReads
	cachedReads map[objectSelection]*cachedRead
}

// cachedRead is a cached read of objects. The fields objects and err are set once done is closed.
type cachedRead struct {
	done    chan struct{}
	objects []any
	err     error
}

// fetcher returns objects with their decoded size.
type fetcher func(context.Context) (objects []any, bytes int64, err error)

// get returns the selected objects from the cache, or calls fetch. Callers must not change the objects.
//
// If another caller's fetch failed, for example after that caller's timeout, get calls its own fetch.
func (r *readCache) get(ctx context.Context, s objectSelection, fetch fetcher) ([]any, error) {
	r.mu.Lock()
	known := r.cachedReads[s]
	if known == nil {
		known = &cachedRead{done: make(chan struct{})}
		if len(r.cachedReads) < maxShared {
			r.cachedReads[s] = known
			time.AfterFunc(sharedFor, func() { r.forget(s) })
		}
		r.mu.Unlock()
		var bytes int64
		known.objects, bytes, known.err = fetch(ctx)
		close(known.done)
		if bytes > maxSharedBytes {
			r.forget(s)
		}
		return known.objects, known.err
	}
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-known.done:
	}
	if known.err != nil {
		objects, _, err := fetch(ctx)
		return objects, err
	}
	return known.objects, nil
}

func (r *readCache) forget(s objectSelection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cachedReads, s)
}

// objects returns the objects that a check selects. The caller must not change them. The context must come from
// withBudget.
func (p *Prober) objects(ctx context.Context, c fleet.CELCheck) ([]any, error) {
	if c.Kind == "" {
		return []any{}, nil
	}
	version, err := schema.ParseGroupVersion(c.APIVersion)
	if err != nil {
		return nil, err
	}
	selector := labels.Everything()
	if c.Selector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(c.Selector); err != nil {
			return nil, err
		}
	}
	if err := p.refuseSecrets(version.WithKind(c.Kind)); err != nil {
		return nil, err
	}
	selected := objectSelection{version, c.Kind, c.Namespace, selector.String()}
	return p.reads.get(ctx, selected, func(ctx context.Context) ([]any, int64, error) {
		objects, err := p.list(ctx, selected, selector)
		b, _ := ctx.Value(budgetKey{}).(*budget)
		return objects, b.decoded.Load(), err
	})
}

// refuseSecrets returns an error if a kind maps to the resource secrets. The mapping also accepts kinds in lower case.
func (p *Prober) refuseSecrets(kind schema.GroupVersionKind) error {
	mapping, err := p.cluster.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	if mapping.Resource.GroupResource() == (schema.GroupResource{Resource: "secrets"}) {
		return errors.New("a check cannot read Secrets")
	}
	return nil
}

func (p *Prober) list(ctx context.Context, s objectSelection, selector labels.Selector) ([]any, error) {
	objects := []any{}
	options := client.ListOptions{Namespace: s.namespace, Limit: pageObjects, LabelSelector: selector}
	for {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(s.version.WithKind(s.kind + "List"))
		if err := p.cluster.List(ctx, &list, &options); err != nil {
			return nil, err
		}
		for i := range list.Items {
			unstructured.RemoveNestedField(list.Items[i].Object, "metadata", "managedFields")
			objects = append(objects, list.Items[i].Object)
		}
		if options.Continue = list.GetContinue(); len(objects) > maxObjects ||
			len(objects) == maxObjects && options.Continue != "" {
			return nil, fmt.Errorf("the check selects more than %d objects: use a namespace or a selector", maxObjects)
		}
		if options.Continue == "" {
			return objects, nil
		}
	}
}
