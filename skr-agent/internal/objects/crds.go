package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/metadata"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

const fieldOwner, defaultOwner = metadata.FieldOwner, metadata.DefaultOwner

// EnsureFoundation creates the namespace and the CRDs that all other objects need. If a webhook rejects the change to
// an existing object, EnsureFoundation continues with that object.
func EnsureFoundation(ctx context.Context, uncached client.Client) error {
	crds, err := loadCRDs()
	if err != nil {
		return err
	}
	home := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}
	if _, err := applyObject(ctx, uncached, home); err != nil {
		return err
	}
	var pending []*unstructured.Unstructured
	for _, crd := range crds {
		live, err := applyCRD(ctx, uncached, crd)
		if err != nil {
			return err
		}
		if live == nil || !IsEstablished(live) {
			pending = append(pending, crd)
		}
	}
	return awaitEstablished(ctx, uncached, pending)
}

// Definitions restores deleted or changed CRDs. It is not safe for concurrent use.
type Definitions struct {
	// applied contains the generation that each CRD had after the last apply. The key is the CRD's UID.
	applied map[types.UID]int64
}

// Restore restores changed or deleted CRDs. served is true if the API server serves all of the agent's kinds.
func (d *Definitions) Restore(ctx context.Context, uncached client.Client) (served bool, err error) {
	crds, err := loadCRDs()
	if err != nil {
		return false, err
	}
	served = true
	var problems []error
	generations := map[types.UID]int64{}
	for _, crd := range crds {
		live, err := d.restore(ctx, uncached, crd)
		problems = append(problems, err)
		if live != nil {
			generations[live.GetUID()] = live.GetGeneration()
		}
		served = served && live != nil && IsEstablished(live)
	}
	d.applied = generations
	return served, errors.Join(problems...)
}

// restore applies a CRD if it changed. It returns nil if the CRD is being deleted.
func (d *Definitions) restore(
	ctx context.Context, uncached client.Client, crd *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	live, err := readLive(ctx, uncached, crd)
	if err != nil || live != nil && d.applied[live.GetUID()] == live.GetGeneration() &&
		live.GetDeletionTimestamp().IsZero() {
		return live, err
	}
	return applyCRDOver(ctx, uncached, crd, live)
}

// readLive returns the live copy of an object, or nil if the object does not exist.
func readLive(
	ctx context.Context, uncached client.Client, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := uncached.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return live, nil
}

// loadCRDs returns the CRDs for the agent's kinds.
func loadCRDs() ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	err := fs.WalkDir(charts.AgentCRDs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := charts.AgentCRDs.ReadFile(path)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		crds = append(crds, crd)
		return nil
	})
	return crds, err
}

// applyCRD applies a CRD. It does not apply the CRD if the live CRD is being deleted, has a conversion webhook, or has
// versions that the agent's CRD does not have. It returns nil if the live CRD is being deleted.
func applyCRD(
	ctx context.Context, uncached client.Client, crd *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	live, err := readLive(ctx, uncached, crd)
	if err != nil {
		return nil, err
	}
	return applyCRDOver(ctx, uncached, crd, live)
}

// applyCRDOver is like applyCRD, but the caller passes the live CRD, which can be nil.
func applyCRDOver(
	ctx context.Context, uncached client.Client, crd, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	switch {
	case live == nil:
	case !live.GetDeletionTimestamp().IsZero():
		return nil, nil
	case extendsCRD(live, crd):
		// A control plane in the same cluster can have installed CRDs with more versions. Keep them.
		return live, nil
	default:
		// Take over the fields that lifecycle-manager owns. Otherwise, the API server would keep lifecycle-manager's
		// fields that are not in the agent's CRD.
		err := takeover.TakeFields(ctx, uncached, live, fieldOwner)
		if err != nil && !IsIntercepted(err) {
			return nil, err
		}
	}
	applied, err := applyObject(ctx, uncached, crd)
	if applied == nil {
		applied = live
	}
	return applied, err
}

// applyObject applies an object and returns the API server's response. It returns nil if a webhook rejected the change.
func applyObject(
	ctx context.Context, uncached client.Client, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	applied := object.DeepCopy()
	configuration := client.ApplyConfigurationFromUnstructured(applied)
	err := uncached.Apply(ctx, configuration, client.FieldOwner(fieldOwner), client.ForceOwnership)
	if IsIntercepted(err) && objectExists(ctx, uncached, object) {
		// Continue, because the agent must run to be able to remove the module that contains the webhook.
		log.FromContext(ctx).Error(err, "failed to apply, continuing with the existing objects", "kind",
			object.GetKind(), "name", object.GetName())
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

func objectExists(ctx context.Context, reader client.Reader, object *unstructured.Unstructured) bool {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	return reader.Get(ctx, client.ObjectKeyFromObject(object), found) == nil
}

func awaitEstablished(ctx context.Context, uncached client.Client, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				found := &unstructured.Unstructured{}
				found.SetGroupVersionKind(crd.GroupVersionKind())
				if err := uncached.Get(ctx, client.ObjectKeyFromObject(crd), found); err != nil {
					if apierrors.IsNotFound(err) {
						_, err := applyCRD(ctx, uncached, crd) // the deleted CRD is gone, so create the new one
						return false, err
					}
					return false, err
				}
				return IsEstablished(found), nil
			})
		if err != nil {
			return fmt.Errorf("wait for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// IsEstablished reports whether the API server has begun to serve a CRD.
func IsEstablished(crd *unstructured.Unstructured) bool {
	status, _ := crd.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" &&
			condition["status"] == "True" {
			return true
		}
	}
	return false
}

// extendsCRD reports whether a live CRD has a conversion webhook, or versions that are missing in the agent's CRD.
func extendsCRD(live, ours *unstructured.Unstructured) bool {
	if strategy, _, _ := unstructured.NestedString(live.Object, "spec", "conversion",
		"strategy"); strategy == "Webhook" {
		return true
	}
	known := crdVersions(ours)
	return slices.ContainsFunc(crdVersions(live), func(version string) bool { return !slices.Contains(known, version) })
}

func crdVersions(crd *unstructured.Unstructured) []string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var names []string
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok {
			name, _ := version["name"].(string)
			names = append(names, name)
		}
	}
	return names
}
