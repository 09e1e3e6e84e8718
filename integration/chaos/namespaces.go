package chaos

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// deleteNamespace deletes the namespace of a runtime's agent and modules with all its objects, including the agent's
// keys and the runtime's Kyma. Then an operator installs the agent again, as after the loss of a runtime, and the admin
// repeats the newest requests.
func (s *stage) deleteNamespace(ctx context.Context, id string) error {
	requests := s.requestsMailer(id)
	done := s.checker.Restoring(id)
	s.checker.RequestWithdrawn(s.since(), id, mailer)
	s.enrollAgain(ctx, id, func() {
		start, err := s.kill(s.programs[id]) // the namespace contains the agent's pod
		if err != nil {
			s.story.Add("stop the agent of %s: %v", id, err)
		}
		s.insist(ctx, "delete the namespace of "+id, func() error { return emptyNamespace(ctx, s.reals[id].API) })
		s.insist(ctx, "enroll "+id+" again", func() error {
			s.once.Lock() // enroll reads the key folder, which other steps change
			defer s.once.Unlock()
			return s.reals[id].Enroll(ctx)
		})
		s.insist(ctx, "start the agent of "+id, start)
		done(s.since())
	})
	s.insist(ctx, "repeat the requests of "+id, func() error { return s.editKyma(ctx, id, requests) })
	if s.hasSnapshots() { // the former snapshot has the former key
		s.insist(ctx, "take a snapshot of "+id, func() error { return s.takeSnapshot(id) })
	}
	return nil
}

// kindsInNamespace lists the kinds whose objects emptyNamespace deletes. The agent's permissions stay, as if an
// operator had installed the agent's chart again.
var kindsInNamespace = []schema.GroupVersionKind{
	v1beta2.GroupVersion.WithKind("Manifest"), v1beta2.GroupVersion.WithKind("Kyma"),
	v1beta2.GroupVersion.WithKind("ModuleTemplate"), v1beta2.GroupVersion.WithKind("ModuleReleaseMeta"),
	{Group: "sample.kyma-pull.dev", Version: "v1", Kind: "Scaler"},
	appsv1.SchemeGroupVersion.WithKind("Deployment"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
}

// agentAccount is the name of the agent's ServiceAccount.
const agentAccount = "skr-agent"

// emptyNamespace deletes kyma-system and creates it again. The test clusters have no controller that deletes the
// objects of a deleted namespace, so emptyNamespace deletes them and their finalizers.
func emptyNamespace(ctx context.Context, api client.Client) error {
	for _, kind := range kindsInNamespace {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := api.List(ctx, found, client.InNamespace(v1beta2.RuntimeNamespace)); err != nil {
			if isUnserved(err) {
				continue
			}
			return err
		}
		var problems []error
		for _, o := range found.Items {
			if kind.Kind == "ServiceAccount" && o.Name == agentAccount {
				continue
			}
			o.SetGroupVersionKind(kind)
			problems = append(problems, deleteWithFinalizers(ctx, api, &o))
		}
		if err := errors.Join(problems...); err != nil {
			return err
		}
	}
	return recreateNamespace(ctx, api)
}

func deleteWithFinalizers(ctx context.Context, api client.Client, o *metav1.PartialObjectMetadata) error {
	if len(o.Finalizers) > 0 {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := api.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return client.IgnoreNotFound(api.Delete(ctx, o))
}

// recreateNamespace deletes kyma-system, which must not contain objects, and creates it again.
func recreateNamespace(ctx context.Context, api client.Client) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1beta2.RuntimeNamespace}}
	if err := api.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return err
	}
	err := api.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		namespace.Spec.Finalizers = nil
		if err := api.SubResource("finalize").Update(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("finalize namespace %s: %w", namespace.Name, err)
		}
	}
	return client.IgnoreAlreadyExists(api.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1beta2.RuntimeNamespace}}))
}
