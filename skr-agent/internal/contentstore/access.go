package contentstore

import (
	"context"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// secrets reads and writes the Secrets with content. Their names contain the digest of the blob.
type secrets interface {
	get(ctx context.Context, name string) (*corev1.Secret, error)
	// listAll and listBlob return metadata. digestLabel is the value of the label with the digest.
	listAll(ctx context.Context) ([]metav1.PartialObjectMetadata, error)
	listBlob(ctx context.Context, digestLabel string) ([]metav1.PartialObjectMetadata, error)
	// create sets the Secret's resource version. create and delete return the Secret's name in the cluster.
	create(ctx context.Context, secret *corev1.Secret) (stored string, err error)
	delete(ctx context.Context, name string) (stored string, err error)
}

// access selects the implementation of secrets that the agent's permissions allow.
type access struct {
	reader    client.Reader
	writer    client.Writer
	namespace string

	mu     sync.Mutex // guards the fields below
	chosen secrets    // nil before the first request
	// mustReview is true after a refused request, because the agent's role can have changed.
	mustReview bool
}

// choose returns byName if the agent may read all Secrets in the namespace, and slots otherwise. If the review fails,
// it returns the previous choice or byName, and reviews the permission again with the next request.
func (a *access) choose(ctx context.Context) secrets {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chosen != nil && !a.mustReview {
		return a.chosen
	}
	named := byName{reader: a.reader, writer: a.writer, namespace: a.namespace}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.namespace, Verb: "get", Resource: "secrets",
		},
	}}
	err := a.writer.Create(ctx, review)
	switch {
	case err != nil && a.chosen != nil:
		return a.chosen
	case err != nil:
		return named
	}
	a.mustReview = false
	_, isBySlot := a.chosen.(*slots)
	switch {
	case review.Status.Allowed:
		a.chosen = named
	case !isBySlot:
		a.chosen = &slots{reader: a.reader, writer: a.writer, namespace: a.namespace}
	}
	return a.chosen
}

// check requests another permission review if err is Forbidden. A quota also causes this error, so the review can have
// the same result.
func (a *access) check(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, isReader := a.chosen.(eitherName); isReader {
		return
	}
	a.mustReview = true
}

func (a *access) checkMetadata(
	parts []metav1.PartialObjectMetadata, err error,
) ([]metav1.PartialObjectMetadata, error) {
	a.check(err)
	return parts, err
}

// byName stores each Secret under its own name, which contains the digest of the blob.
type byName struct {
	reader    client.Reader
	writer    client.Writer
	namespace string
}

func (b byName) get(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := b.reader.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, &secret)
	return &secret, err
}

func (b byName) listAll(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	return b.list(ctx, client.HasLabels{v1beta2.LabelContent})
}

func (b byName) listBlob(ctx context.Context, digestLabel string) ([]metav1.PartialObjectMetadata, error) {
	return b.list(ctx, client.MatchingLabels{v1beta2.LabelContentDigest: digestLabel})
}

func (b byName) list(ctx context.Context, selector client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var found metav1.PartialObjectMetadataList
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := b.reader.List(ctx, &found, client.InNamespace(b.namespace), selector); err != nil {
		return nil, err
	}
	return found.Items, nil
}

func (b byName) create(ctx context.Context, secret *corev1.Secret) (stored string, err error) {
	return secret.Name, b.writer.Create(ctx, secret)
}

func (b byName) delete(ctx context.Context, name string) (stored string, err error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	return name, b.writer.Delete(ctx, secret)
}

// eitherName reads Secrets by name, or from a slot if the name does not exist. Only stores from NewReader use it.
type eitherName struct {
	byName
	slots *slots
}

func (e eitherName) get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := e.byName.get(ctx, name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return e.slots.get(ctx, name)
	}
	return secret, err
}

func (e eitherName) listBlob(ctx context.Context, digestLabel string) ([]metav1.PartialObjectMetadata, error) {
	named, err := e.byName.listBlob(ctx, digestLabel)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	stored, err := e.slots.listBlob(ctx, digestLabel)
	return append(named, stored...), err
}
