package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// usersName is the name of the objects that users create in the namespace usersNamespace of each real runtime. No agent
// can delete them.
const usersName, usersNamespace = "mine", metav1.NamespaceDefault

// editedKey and editedValue are the content that a user writes to an object of module scaler.
const editedKey, editedValue = "level", "edited"

// createdByUsers returns users' objects: a custom resource of a module's kind, and objects of built-in kinds.
func createdByUsers() []client.Object {
	named := metav1.ObjectMeta{Namespace: usersNamespace, Name: usersName}
	scaler := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	scaler.SetAPIVersion("sample.kyma-pull.dev/v1")
	scaler.SetKind("Scaler")
	scaler.SetNamespace(named.Namespace)
	scaler.SetName(named.Name)
	return []client.Object{
		scaler, &corev1.ConfigMap{ObjectMeta: named}, &corev1.Secret{ObjectMeta: named},
	}
}

// createUsersObjects creates users' objects in all real runtimes.
func (s *stage) createUsersObjects(ctx context.Context) error {
	for id, r := range s.reals {
		for _, o := range createdByUsers() {
			if err := r.API.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("create %s in %s: %w", nameOf(o), id, err)
			}
		}
	}
	return nil
}

// checkUsers checks users' objects in a runtime, and that the agent restores edited objects.
func (s *stage) checkUsers(ctx context.Context, id string, r *fleet.Runtime) {
	if objects, err := usersObjectsIn(ctx, r); err == nil {
		s.checker.Objects(s.since(), id, usersObjects, objects)
	}
	config := settings()
	err := r.API.Get(ctx, client.ObjectKeyFromObject(config), config)
	if client.IgnoreNotFound(err) == nil {
		s.checker.Content(s.since(), id, nameOf(settings()), err == nil && config.Data[editedKey] == editedValue)
	}
}

// usersObjectsIn returns the UIDs of users' objects by name. It returns an error while a kind is not served.
func usersObjectsIn(ctx context.Context, r *fleet.Runtime) (map[string]string, error) {
	found := map[string]string{}
	for _, o := range createdByUsers() {
		name := nameOf(o)
		err := r.API.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case err == nil:
			found[name] = string(o.GetUID())
		case isUnserved(err) || client.IgnoreNotFound(err) != nil:
			return nil, err
		}
	}
	return found, nil
}

// settings returns the ConfigMap of module scaler that users edit.
func settings() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: inKymaSystem("scaler-settings")}
}
