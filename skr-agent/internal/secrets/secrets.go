// Package secrets decrypts the sealed Secrets of a bundle with the agent's key, and writes them into the runtime.
//
// It changes only Secrets that the agent wrote, and deletes only Secrets that the bundle lists for removal. Errors,
// logs and reports never contain decrypted values.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Keeper reconciles the Secrets of one runtime. It is not safe for concurrent use.
type Keeper struct {
	// Client must not be cached, because a cache would contain all Secrets of the cluster.
	Client   client.Client
	Runtime  string
	Identity *age.X25519Identity

	last *bundle.ReportedSecrets // last is the result of the last call of Keep
	// ours contains the UIDs of Secrets that the agent wrote, by namespace/name.
	ours map[string]types.UID
}

// Recipient returns the public age key that encrypts the runtime's Secrets.
func (k *Keeper) Recipient() string { return k.Identity.Recipient().String() }

// Keep writes the sealed Secrets into the runtime and returns the result. If again is false, it does not write a
// revision that it has already written without an error. If sealed is nil, it changes no Secrets.
func (k *Keeper) Keep(ctx context.Context, sealed *bundle.Sealed, again bool) *bundle.ReportedSecrets {
	if sealed == nil {
		k.last = nil
		return nil
	}
	if k.last == nil || k.last.Revision != sealed.Revision || k.last.Trouble != "" || again {
		problems := k.keep(ctx, sealed)
		k.last = &bundle.ReportedSecrets{
			Revision: sealed.Revision, Reason: reasonOf(problems), Trouble: trouble(problems),
		}
	}
	return k.last
}

func (k *Keeper) keep(ctx context.Context, sealed *bundle.Sealed) []error {
	secrets, err := sealed.Open(k.Runtime, k.Identity)
	if err != nil {
		return []error{reason.Errorf(reason.SecretsUnreadable, "sealed Secrets: %w", err)}
	}
	var problems []error
	for _, want := range secrets.Secrets {
		if err := k.write(ctx, want); err != nil {
			problems = append(problems, fmt.Errorf("secret %s: %w", want.At(), err))
		}
	}
	return append(problems, k.remove(ctx, secrets.Removals)...)
}

// Clear deletes all sealed Secrets of a Kyma that was deleted in the control plane. If it cannot decrypt the sealed
// Secrets, it deletes none, because it does not know their names.
func (k *Keeper) Clear(ctx context.Context, sealed *bundle.Sealed) error {
	if sealed == nil {
		return nil
	}
	secrets, err := sealed.Open(k.Runtime, k.Identity)
	if err != nil {
		return nil //nolint:nilerr // Keep has reported the error, and a retry cannot succeed
	}
	names := secrets.Removals
	for _, s := range secrets.Secrets {
		names = append(names, s.At())
	}
	return errors.Join(k.remove(ctx, names)...)
}

func (k *Keeper) write(ctx context.Context, want bundle.RuntimeSecret) error {
	have := &corev1.Secret{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: want.Namespace, Name: want.Name}, have)
	if apierrors.IsNotFound(err) {
		have, err = nil, nil
	}
	if err != nil {
		return responseOf(err)
	}
	change, err := Decide(want, have, k.ours[want.At()])
	if err != nil {
		return err
	}
	switch change.What {
	case Update:
		k.know(want.At(), have)
		return responseOf(k.Client.Update(ctx, change.Secret))
	case Replace:
		if err := k.delete(ctx, have); err != nil {
			return err
		}
	case Nothing:
		k.know(want.At(), have)
		return nil
	}
	if err = k.Client.Create(ctx, change.Secret); err == nil {
		k.know(want.At(), change.Secret)
	}
	if apierrors.IsNotFound(err) {
		return reason.Errorf(reason.NamespaceMissing, "namespace %s does not exist yet", want.Namespace)
	}
	return responseOf(err)
}

// know records the UID of a Secret that the agent wrote, so that the agent recognizes the Secret without its label.
func (k *Keeper) know(at string, secret *corev1.Secret) {
	if k.ours == nil {
		k.ours = map[string]types.UID{}
	}
	k.ours[at] = secret.UID
}

func (k *Keeper) remove(ctx context.Context, names []string) []error {
	var problems []error
	for _, at := range names {
		namespace, name, _ := strings.Cut(at, "/")
		have := &corev1.Secret{}
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, have)
		if err == nil && isOurs(have, k.ours[at]) {
			err = k.delete(ctx, have)
		}
		if client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("secret %s: %w", at, responseOf(err)))
			continue
		}
		delete(k.ours, at)
	}
	return problems
}

// delete deletes a Secret. It returns a conflict if the Secret has changed since the caller read it.
func (k *Keeper) delete(ctx context.Context, have *corev1.Secret) error {
	err := k.Client.Delete(ctx, have, client.Preconditions(metav1.Preconditions{
		UID: &have.UID, ResourceVersion: &have.ResourceVersion,
	}))
	return responseOf(client.IgnoreNotFound(err))
}

// refused is an error that contains only the reason of an API server's error. It omits the message, because an
// admission webhook can include the content of the Secret in it.
type refused metav1.StatusReason

func (r refused) Error() string {
	if r == refused(metav1.StatusReasonUnknown) {
		return "the API server did not respond"
	}
	return fmt.Sprintf("the API server responded with %s", string(r))
}

func responseOf(err error) error {
	var known refused
	if err == nil || errors.As(err, &known) {
		return err
	}
	return refused(apierrors.ReasonForError(err))
}

// reasonOf returns the reason of the first problem, or "" without problems. If the problem has no specific reason,
// the result is WriteFailed.
func reasonOf(problems []error) reason.Reason {
	if len(problems) == 0 {
		return ""
	}
	var answer refused
	switch r := reason.Of(problems[0]); {
	case r != reason.Other:
		return r
	case errors.As(problems[0], &answer) && metav1.StatusReason(answer) == metav1.StatusReasonForbidden:
		return reason.Forbidden
	}
	return reason.WriteFailed
}

// trouble returns the messages of all problems as one text.
func trouble(problems []error) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return bundle.Bounded(strings.Join(texts, "; "), bundle.MaxMessageBytes)
}
