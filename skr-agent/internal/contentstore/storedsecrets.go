package contentstore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listAll returns the metadata for all Secrets with content.
func (s *Store) listAll(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	return s.access.checkMetadata(s.access.choose(ctx).listAll(ctx))
}

func (s *Store) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.access.choose(ctx).get(ctx, name)
	s.access.check(err)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("secret %s/%s: %w", s.namespace, name, ErrMissing)
	}
	return secret, err
}

func (s *Store) create(ctx context.Context, secret *corev1.Secret) error {
	stored, err := s.access.choose(ctx).create(ctx, secret)
	s.access.check(err)
	if err == nil {
		s.written.add(stored, secret.ResourceVersion)
	}
	return err
}

// writeSecret creates a Secret. If the Secret exists, it is replaced, because Secrets with content are immutable.
func (s *Store) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	err := s.create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := s.deleteSecrets(ctx, secret.Name); err != nil {
		return err
	}
	secret.ResourceVersion = ""
	return s.create(ctx, secret)
}

func (s *Store) deleteSecrets(ctx context.Context, names ...string) error {
	secrets := s.access.choose(ctx)
	for _, name := range names {
		stored, err := secrets.delete(ctx, name)
		s.access.check(err)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		s.written.remove(stored)
	}
	return nil
}
