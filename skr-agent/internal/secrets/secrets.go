// Package secrets decrypts a bundle's sealed Secrets with the agent's key, and writes them into the runtime.
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

// Reconciler reconciles the Secrets in one runtime. It is not safe for concurrent use.
type Reconciler struct {
	// Client must not have a cache, which would contain all Secrets in the cluster.
	Client   client.Client
	Runtime  string
	Identity *age.X25519Identity

	lastResult *bundle.ReportedSecrets // lastResult is the result of the last call to Reconcile.
	// writtenUIDs contains the UIDs of Secrets that the agent wrote, by namespace/name.
	writtenUIDs map[string]types.UID
}

// Recipient returns the public age key that encrypts the runtime's Secrets.
func (k *Reconciler) Recipient() string { return k.Identity.Recipient().String() }

// Reconcile writes the sealed Secrets into the runtime and returns the result. If again is false, it does not write a
// revision that it has already written without an error. If sealed is nil, it changes no Secrets.
func (k *Reconciler) Reconcile(ctx context.Context, sealed *bundle.Sealed, again bool) *bundle.ReportedSecrets {
	if sealed == nil {
		k.lastResult = nil
		return nil
	}
	if k.lastResult == nil || k.lastResult.Revision != sealed.Revision || k.lastResult.Trouble != "" || again {
		problems := k.writeAll(ctx, sealed)
		k.lastResult = &bundle.ReportedSecrets{
			Revision: sealed.Revision, Reason: firstReason(problems), Trouble: joinMessages(problems),
		}
	}
	return k.lastResult
}

func (k *Reconciler) writeAll(ctx context.Context, sealed *bundle.Sealed) []error {
	secrets, err := sealed.Open(k.Runtime, k.Identity)
	if err != nil {
		return []error{reason.Errorf(reason.SecretsUnreadable, "sealed Secrets: %w", err)}
	}
	var problems []error
	for _, want := range secrets.Secrets {
		if err := k.writeSecret(ctx, want); err != nil {
			problems = append(problems, fmt.Errorf("secret %s: %w", want.NamespacedName(), err))
		}
	}
	return append(problems, k.removeSecrets(ctx, secrets.Removals)...)
}

// Clear deletes all sealed Secrets for a Kyma that was deleted in the control plane. If the sealed Secrets cannot be
// decrypted, Clear deletes none, because it does not know their names.
func (k *Reconciler) Clear(ctx context.Context, sealed *bundle.Sealed) error {
	if sealed == nil {
		return nil
	}
	secrets, err := sealed.Open(k.Runtime, k.Identity)
	if err != nil {
		return nil //nolint:nilerr // Reconcile has reported the error, and a retry cannot succeed
	}
	names := secrets.Removals
	for _, s := range secrets.Secrets {
		names = append(names, s.NamespacedName())
	}
	return errors.Join(k.removeSecrets(ctx, names)...)
}

func (k *Reconciler) writeSecret(ctx context.Context, want bundle.RuntimeSecret) error {
	have := &corev1.Secret{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: want.Namespace, Name: want.Name}, have)
	if apierrors.IsNotFound(err) {
		have, err = nil, nil
	}
	if err != nil {
		return withoutMessage(err)
	}
	change, err := decide(want, have, k.writtenUIDs[want.NamespacedName()])
	if err != nil {
		return err
	}
	switch change.Action {
	case actionUpdate:
		k.recordUID(want.NamespacedName(), have)
		return withoutMessage(k.Client.Update(ctx, change.Secret))
	case actionReplace:
		if err := k.deleteSecret(ctx, have); err != nil {
			return err
		}
	case actionNone:
		k.recordUID(want.NamespacedName(), have)
		return nil
	}
	if err = k.Client.Create(ctx, change.Secret); err == nil {
		k.recordUID(want.NamespacedName(), change.Secret)
	}
	if apierrors.IsNotFound(err) {
		return reason.Errorf(reason.NamespaceMissing, "namespace %s does not exist yet", want.Namespace)
	}
	return withoutMessage(err)
}

// recordUID records the UID of a Secret that the agent wrote, so that the agent recognizes the Secret without its
// label.
func (k *Reconciler) recordUID(name string, secret *corev1.Secret) {
	if k.writtenUIDs == nil {
		k.writtenUIDs = map[string]types.UID{}
	}
	k.writtenUIDs[name] = secret.UID
}

func (k *Reconciler) removeSecrets(ctx context.Context, names []string) []error {
	var problems []error
	for _, at := range names {
		namespace, name, _ := strings.Cut(at, "/")
		have := &corev1.Secret{}
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, have)
		if err == nil && isOwned(have, k.writtenUIDs[at]) {
			err = k.deleteSecret(ctx, have)
		}
		if client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("secret %s: %w", at, withoutMessage(err)))
			continue
		}
		delete(k.writtenUIDs, at)
	}
	return problems
}

// deleteSecret deletes a Secret. It returns a conflict if the Secret has changed since the caller read it.
func (k *Reconciler) deleteSecret(ctx context.Context, have *corev1.Secret) error {
	err := k.Client.Delete(ctx, have, client.Preconditions(metav1.Preconditions{
		UID: &have.UID, ResourceVersion: &have.ResourceVersion,
	}))
	return withoutMessage(client.IgnoreNotFound(err))
}

// reasonError is an error that contains only the reason from an API server's error. It omits the API server's message,
// because an admission webhook can include the Secret's content in the message.
type reasonError metav1.StatusReason

func (r reasonError) Error() string {
	if r == reasonError(metav1.StatusReasonUnknown) {
		return "the API server did not respond"
	}
	return fmt.Sprintf("the API server responded with %s", string(r))
}

func withoutMessage(err error) error {
	var known reasonError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return reasonError(apierrors.ReasonForError(err))
}

// firstReason returns the first problem's reason, or "" without problems. If the problem has no specific reason, the
// result is WriteFailed.
func firstReason(problems []error) reason.Reason {
	if len(problems) == 0 {
		return ""
	}
	var answer reasonError
	switch r := reason.Of(problems[0]); {
	case r != reason.Other:
		return r
	case errors.As(problems[0], &answer) && metav1.StatusReason(answer) == metav1.StatusReasonForbidden:
		return reason.Forbidden
	}
	return reason.WriteFailed
}

// joinMessages returns all problems' messages as one string.
func joinMessages(problems []error) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return bundle.Bounded(strings.Join(texts, "; "), bundle.MaxMessageBytes)
}
