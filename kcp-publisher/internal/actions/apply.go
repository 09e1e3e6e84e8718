// Package actions implements operators' actions on Rollouts and Kymas, such as pausing a rollout or suspending a
// runtime, for the command line and the web UI.
package actions

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const component = "kcp-publisher"

// Action is an operator's change to an object.
type Action[T any] struct {
	// Reason is the reason of the Event that records the action.
	Reason string
	// Change modifies the object in memory and returns the effect, such as "is paused". It returns an error if the
	// object's state does not allow the action.
	Change func(*T) (string, error)
}

// Result is the result of a successful action.
type Result struct {
	// Effect is the text that Change returned. It completes a sentence that starts with the object's name, such as
	// "rollout keda-1 is paused".
	Effect string
	// Unrecorded is the error from creating the Event after a successful action, or nil.
	Unrecorded error
}

// Apply reads an object, applies the action, patches the object and creates an Event. If the action does not change the
// object, Apply neither patches the object nor creates an Event. The Event's message names the user in by, if by is not
// empty. Apply retries after a conflict.
func Apply[T any, P interface {
	*T
	client.Object
	DeepCopy() *T
}](ctx context.Context, api client.Client, key client.ObjectKey, by string, action Action[T]) (Result, error) {
	var result Result
	var object P
	changed := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object = P(new(T))
		if err := api.Get(ctx, key, object); err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		before := P(object.DeepCopy())
		var err error
		if result.Effect, err = action.Change(object); err != nil {
			return err
		}
		if changed = !equality.Semantic.DeepEqual(before, object); !changed {
			return nil
		}
		if err := api.Patch(ctx, object,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("change %s: %w", key, err)
		}
		return nil
	})
	if err == nil && changed {
		result.Unrecorded = createEvent(ctx, api, object, by, action.Reason, result.Effect, time.Now())
	}
	return result, err
}

func createEvent(
	ctx context.Context, api client.Client, object client.Object, by, reason, effect string, now time.Time,
) error {
	kind, err := apiutil.GVKForObject(object, api.Scheme())
	if err != nil {
		return fmt.Errorf("record an Event: %w", err)
	}
	message := object.GetName() + " " + effect
	if by != "" {
		message += ", by " + by
	}
	if len(message) > maxMessageBytes {
		message = strings.ToValidUTF8(message[:maxMessageBytes], "")
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), GenerateName: object.GetName() + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().
				String(),
			Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		},
		Type: corev1.EventTypeNormal, Reason: reason, Message: message, Count: 1,
		Source:         corev1.EventSource{Component: component},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
	}
	if err := api.Create(ctx, event); err != nil {
		return fmt.Errorf("record an Event: %w", err)
	}
	return nil
}

const maxMessageBytes = 1024
