// Package secrets writes the runtime's Secrets: what a bundle has sealed for this agent and the agent's own key go in,
// Secrets come out.
//
// It touches only Secrets that it wrote itself, and deletes only those that are named as to go. What it decrypts goes
// into Secrets and nowhere else: errors, logs and reports have names and reasons.
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

// Keeper keeps the Secrets of one runtime. It is used by one goroutine.
type Keeper struct {
	// Client does not cache: Secrets of all namespaces are in question.
	Client   client.Client
	Runtime  string
	Identity *age.X25519Identity

	told *bundle.ReportedSecrets // what became of the last that was looked at
	// ours are the UIDs of Secrets that this agent wrote or found to be its own, by namespace and name.
	ours map[string]types.UID
}

// Recipient is whom the runtime's Secrets are to be encrypted to.
func (k *Keeper) Recipient() string { return k.Identity.Recipient().String() }

// Keep brings the Secrets in line with what is sealed and tells what became of them. Without again, what was in line
// before is taken to be so still. Nothing sealed is nothing said: all stays.
func (k *Keeper) Keep(ctx context.Context, sealed *bundle.Sealed, again bool) *bundle.ReportedSecrets {
	if sealed == nil {
		k.told = nil
		return nil
	}
	if k.told == nil || k.told.Revision != sealed.Revision || k.told.Trouble != "" || again {
		problems := k.keep(ctx, sealed)
		k.told = &bundle.ReportedSecrets{Revision: sealed.Revision, Reason: reasonOf(problems), Trouble: trouble(problems)}
	}
	return k.told
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

// Clear deletes all Secrets that are sealed, for a runtime whose Kyma was deleted. What cannot be decrypted has no
// names to delete.
func (k *Keeper) Clear(ctx context.Context, sealed *bundle.Sealed) error {
	if sealed == nil {
		return nil
	}
	secrets, err := sealed.Open(k.Runtime, k.Identity)
	if err != nil {
		return nil //nolint:nilerr // Keep has told it, and no other bundle comes
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
		return answerOf(err)
	}
	change, err := Decide(want, have, k.ours[want.At()])
	if err != nil {
		return err
	}
	switch change.What {
	case Update:
		k.know(want.At(), have)
		return answerOf(k.Client.Update(ctx, change.Secret))
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
		return reason.Errorf(reason.NamespaceMissing, "namespace %s is not there yet", want.Namespace)
	}
	return answerOf(err)
}

// know remembers that a Secret is the agent's own, should somebody take its label away.
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
			problems = append(problems, fmt.Errorf("secret %s: %w", at, answerOf(err)))
			continue
		}
		delete(k.ours, at)
	}
	return problems
}

// delete deletes exactly what was read.
func (k *Keeper) delete(ctx context.Context, have *corev1.Secret) error {
	err := k.Client.Delete(ctx, have, client.Preconditions(metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}))
	return answerOf(client.IgnoreNotFound(err))
}

// refused is an answer of the API server without its words: who refuses a Secret may repeat it, as admission webhooks
// do.
type refused metav1.StatusReason

func (r refused) Error() string {
	if r == refused(metav1.StatusReasonUnknown) {
		return "the API server did not answer"
	}
	return fmt.Sprintf("the API server says %s", string(r))
}

func answerOf(err error) error {
	var known refused
	if err == nil || errors.As(err, &known) {
		return err
	}
	return refused(apierrors.ReasonForError(err))
}

// reasonOf returns the reason of the first problem, empty without one. An answer of the API server without a reason of
// its own is WriteFailed.
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

// trouble says what is wrong in one line.
func trouble(problems []error) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return bundle.Bounded(strings.Join(texts, "; "), bundle.MaxMessageBytes)
}
