package objects

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
)

// FieldOwner is the agent's name in managed fields.
const FieldOwner = "kyma-pull"

// Foundation makes the namespace and the CRDs be there that everything else is written to. Stored objects are never lost: a CRD
// is only ever applied, not replaced. One that is there and that a webhook keeps from being applied stays as it is.
func Foundation(ctx context.Context, uncached client.Client) error {
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}}
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
		objects = append(objects, crd)
		return nil
	})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if converts, err := hasConversion(ctx, uncached, object); err != nil || converts {
			if err != nil {
				return err
			}
			continue // in a single cluster the definitions are the control plane's, which serve more than these
		}
		err := uncached.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldOwner), client.ForceOwnership)
		if isIntercepted(err) && isThere(ctx, uncached, object) {
			// An agent that did not start could not remove the module that brought the webhook.
			log.FromContext(ctx).Error(err, "failed to apply, continuing with what is there", "kind", object.GetKind(), "name", object.GetName())
			continue
		}
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return established(ctx, uncached, objects[1:])
}

// isIntercepted reports whether an admission webhook kept a request from the API server: by its answer, or by giving none.
func isIntercepted(err error) bool {
	return err != nil && strings.Contains(err.Error(), "webhook") &&
		(apierrors.IsInternalError(err) || strings.Contains(err.Error(), "denied the request"))
}

func isThere(ctx context.Context, reader client.Reader, object *unstructured.Unstructured) bool {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	return reader.Get(ctx, client.ObjectKeyFromObject(object), found) == nil
}

func established(ctx context.Context, reader client.Reader, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			found := &unstructured.Unstructured{}
			found.SetGroupVersionKind(crd.GroupVersionKind())
			if err := reader.Get(ctx, client.ObjectKeyFromObject(crd), found); err != nil {
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return false, err
			}
			return isEstablished(found), nil
		})
		if err != nil {
			return fmt.Errorf("wait for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// isEstablished reports whether the API server serves what a definition defines. A status that is not whole yet says no.
func isEstablished(crd *unstructured.Unstructured) bool {
	status, _ := crd.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// hasConversion reports whether a definition is there whose versions a webhook converts.
func hasConversion(ctx context.Context, reader client.Reader, crd *unstructured.Unstructured) (bool, error) {
	if crd.GetKind() != "CustomResourceDefinition" {
		return false, nil
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(crd.GroupVersionKind())
	if err := reader.Get(ctx, client.ObjectKeyFromObject(crd), found); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	strategy, _, _ := unstructured.NestedString(found.Object, "spec", "conversion", "strategy")
	return strategy == "Webhook", nil
}
