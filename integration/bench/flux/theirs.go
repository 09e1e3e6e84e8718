package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// fluxProduct is Flux's side of the comparison: an OCIRepository and a Kustomization for each application, as in Flux's
// own benchmark.
type fluxProduct struct {
	apps        int
	found       assets.Flux
	registry    *registry.Registry
	place       store.Store
	runtime     *cluster.Cluster
	api         client.Client
	controllers *controllers
	mu          sync.Mutex
	revisions   map[string]digest.Digest // digests of the pushed artifacts, by application and version
}

const fluxNamespace = "flux-system"

var (
	ociRepository = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"}
	kustomization = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
)

func (t *fluxProduct) name() string { return "Flux" }

func (t *fluxProduct) prepare(ctx context.Context) error {
	var err error
	if t.found, err = assets.EnsureFlux(ctx, os.Stderr); err != nil {
		return err
	}
	if t.registry, err = registry.Start(ctx, registry.Options{}); err != nil {
		return err
	}
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	if err != nil {
		return err
	}
	if t.place, err = store.Open(t.registry.Host()+"/apps", registries); err != nil {
		return err
	}
	t.revisions = map[string]digest.Digest{}
	if err := t.push(ctx, first); err != nil {
		return err
	}
	var crds []fs.FS
	for _, dir := range t.found.CRDs {
		crds = append(crds, os.DirFS(dir))
	}
	if t.runtime, err = cluster.Start(ctx,
		cluster.Options{Workloads: true, Measured: true, CRDs: crds, Progress: os.Stderr}); err != nil {
		return err
	}
	if t.api, err = fleet.Connect(t.runtime.Kubeconfig(), ""); err != nil {
		return err
	}
	for _, name := range []string{fluxNamespace, namespace} {
		if err := t.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	if t.controllers, err = newControllers(t.found, t.runtime); err != nil {
		return err
	}
	return forEachApplication(ctx, t.apps, t.declare)
}

// push pushes a version of every application and tags the artifacts.
func (t *fluxProduct) push(ctx context.Context, version string) error {
	return forEachApplication(ctx, t.apps, func(ctx context.Context, i int) error {
		pushed, err := pushArtifact(ctx, t.place, appName(i), appFiles(app(i, version)))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.revisions[appName(i)+version] = pushed
		return err
	})
}

func (t *fluxProduct) declare(ctx context.Context, i int) error {
	source := object(ociRepository, appName(i), map[string]any{
		"interval": "60m", "insecure": true, "url": "oci://" + t.place.Name(appName(i)),
		"ref": map[string]any{"tag": tag},
	})
	apply := object(kustomization, appName(i), map[string]any{
		"interval": "60m", "retryInterval": "2m", "timeout": "10m", "path": "./", "prune": true, "wait": true,
		"targetNamespace": namespace,
		"sourceRef":       map[string]any{"kind": ociRepository.Kind, "name": appName(i)},
	})
	return errors.Join(t.api.Create(ctx, source), t.api.Create(ctx, apply))
}

func object(of schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(of)
	o.SetNamespace(fluxNamespace)
	o.SetName(name)
	return o
}

func (t *fluxProduct) start(context.Context) error { return t.controllers.start() }
func (t *fluxProduct) stop() error                 { return t.controllers.stop() }
func (t *fluxProduct) programs() []int             { return t.controllers.pids() }
func (t *fluxProduct) profiles() string            { return "" }
func (t *fluxProduct) cluster() *rest.Config       { return t.runtime.Config }
func (t *fluxProduct) log() string                 { return t.controllers.log() }
func (t *fluxProduct) settings() string {
	return t.found.Versions + ", " + t.controllers.settings() +
		"; an OCIRepository and a Kustomization with wait: true per application, intervals of 60m"
}

func (t *fluxProduct) units() kind { return kind{kustomization, fluxNamespace} }

// ready returns a function that reports whether a Kustomization is Ready in this version.
func (t *fluxProduct) ready(version string) func(*unstructured.Unstructured) bool {
	return func(k *unstructured.Unstructured) bool {
		applied, _, _ := unstructured.NestedString(k.Object, "status", "lastAppliedRevision")
		conditions, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
		isReady := slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Ready" && condition["status"] == "True"
		})
		t.mu.Lock()
		defer t.mu.Unlock()
		return isReady && current(k) && strings.HasSuffix(applied, "@"+t.revisions[k.GetName()+version].String())
	}
}

// revise pushes the second version of every application and triggers Flux's reconciliation.
func (t *fluxProduct) revise(ctx context.Context, before func() error) (time.Time, requests, error) {
	if err := t.push(ctx, second); err != nil {
		return time.Time{}, requests{}, err
	}
	if err := before(); err != nil {
		return time.Time{}, requests{}, err
	}
	at := time.Now()
	return at, changes(t.apps), forEachApplication(ctx, t.apps, func(ctx context.Context, i int) error {
		return t.request(ctx, ociRepository, i)
	})
}

// requestReconcile makes Flux reconcile applications immediately, before their interval ends.
func (t *fluxProduct) requestReconcile(ctx context.Context, apps []int) (requests, error) {
	return changes(len(apps)), forEachApplication(ctx, len(apps), func(ctx context.Context, i int) error {
		return t.request(ctx, kustomization, apps[i])
	})
}

func (t *fluxProduct) request(ctx context.Context, of schema.GroupVersionKind, i int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`,
		time.Now().Format(time.RFC3339Nano))
	return t.api.Patch(ctx, object(of, appName(i), nil), client.RawPatch(types.MergePatchType, patch))
}

func (t *fluxProduct) report(context.Context) (string, error) { return "", nil }

func (t *fluxProduct) close() error {
	var problems []error
	if t.controllers != nil {
		problems = append(problems, t.controllers.close())
	}
	if t.runtime != nil {
		problems = append(problems, t.runtime.Stop())
	}
	if t.registry != nil {
		problems = append(problems, t.registry.Close())
	}
	return errors.Join(problems...)
}

// current reports whether an object's status describes its current spec. A status without a generation is treated as
// current.
func current(o *unstructured.Unstructured) bool {
	observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return !found || observed == o.GetGeneration()
}
