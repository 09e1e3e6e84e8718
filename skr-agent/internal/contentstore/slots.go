package contentstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// slotCount is the number of slots. They hold up to 96 MiB of compressed content.
const slotCount = 128

// scanWorkers is the number of parallel requests during a scan.
const scanWorkers = 16

// ErrFull means that all slots are in use.
var ErrFull = errors.New("all Secrets for content are in use: reduce the number of modules, or allow the agent to " +
	"access all Secrets in its namespace")

// slotNames contains all slot names, sorted.
var slotNames = listSlotNames()

func listSlotNames() []string {
	names := make([]string, 0, slotCount)
	for n := range slotCount {
		names = append(names, fmt.Sprintf("%sslot-%03d", secretPrefix, n))
	}
	return names
}

// SlotNames returns all slot names. The agent's role must contain them.
func SlotNames() []string { return slices.Clone(slotNames) }

// slots stores Secrets with a fixed set of names, because RBAC cannot grant access to names that contain a digest. An
// annotation on a slot contains the name that byName would use. Each slot is read with a separate request, because a
// role with resource names does not allow list requests.
type slots struct {
	reader    client.Reader
	writer    client.Writer
	namespace string

	mu sync.Mutex // guards the fields below
	// used contains the slots that exist or that are being written, by slot name. The name in the metadata is the name
	// that byName would use.
	used map[string]metav1.PartialObjectMetadata
	// isScanned is true after the first scan.
	isScanned bool
	// skipsForbidden is true for users whose permissions include only some slots.
	skipsForbidden bool
}

func (s *slots) get(ctx context.Context, name string) (*corev1.Secret, error) {
	slot, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	var secret corev1.Secret
	err = s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: slot}, &secret)
	if apierrors.IsNotFound(err) {
		s.forget(slot)
	}
	if err == nil && secret.Annotations[v1beta2.AnnotationContentName] != name {
		s.forget(slot) // another process has replaced the slot's content
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret.Name = name
	return &secret, err
}

// find returns the slot that contains the Secret with the given name. The first call scans all slots. Later calls do
// not scan again, so they can miss content that another process has written since the scan. Therefore, the agent lists
// all content before it fetches any.
func (s *slots) find(ctx context.Context, name string) (string, error) {
	if err := s.scanOnce(ctx); err != nil {
		return "", err
	}
	if slot := s.slotOf(name); slot != "" {
		return slot, nil
	}
	return "", apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (s *slots) scanOnce(ctx context.Context) error {
	s.mu.Lock()
	isScanned := s.isScanned
	s.mu.Unlock()
	if isScanned {
		return nil
	}
	return s.scan(ctx)
}

func (s *slots) slotOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slotNames {
		if known, isUsed := s.used[slot]; isUsed && known.Name == name {
			return slot
		}
	}
	return ""
}

func (s *slots) listAll(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	if err := s.scan(ctx); err != nil {
		return nil, err
	}
	return s.known(func(metav1.PartialObjectMetadata) bool { return true }), nil
}

// listBlob rereads and returns the metadata of the known slots with the given digest label.
func (s *slots) listBlob(ctx context.Context, digestLabel string) ([]metav1.PartialObjectMetadata, error) {
	if err := s.scanOnce(ctx); err != nil {
		return nil, err
	}
	hasDigest := func(o metav1.PartialObjectMetadata) bool { return o.Labels[v1beta2.LabelContentDigest] == digestLabel }
	for _, part := range s.known(hasDigest) {
		if slot := s.slotOf(part.Name); slot != "" {
			if err := s.refresh(ctx, slot); err != nil {
				return nil, err
			}
		}
	}
	return s.known(hasDigest), nil
}

// known returns the metadata of matching slots with content, sorted by slot name.
func (s *slots) known(matches func(metav1.PartialObjectMetadata) bool) (all []metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slotNames {
		if o, isUsed := s.used[slot]; isUsed && o.Labels[v1beta2.LabelContent] != "" && matches(o) {
			all = append(all, o)
		}
	}
	return all
}

// create writes a Secret to a free slot. It returns AlreadyExists if another slot already contains a Secret with this
// name.
func (s *slots) create(ctx context.Context, secret *corev1.Secret) (stored string, err error) {
	if err := s.scanOnce(ctx); err != nil {
		return "", err
	}
	if s.slotOf(secret.Name) != "" {
		return "", apierrors.NewAlreadyExists(corev1.Resource("secrets"), secret.Name)
	}
	for {
		slot, err := s.reserve(secret.Name)
		if err != nil {
			return "", err
		}
		o := secret.DeepCopy()
		o.Name = slot
		o.Annotations[v1beta2.AnnotationContentName] = secret.Name
		err = s.writer.Create(ctx, o)
		if err == nil {
			secret.ResourceVersion = o.ResourceVersion
			s.record(slot, metav1.PartialObjectMetadata{ObjectMeta: o.ObjectMeta})
			return slot, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			s.forget(slot)
			return "", err
		}
		if err := s.refresh(ctx, slot); err != nil {
			return "", err
		}
	}
}

// reserve returns a free slot, and marks it as used by the Secret with the given name.
func (s *slots) reserve(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slotNames {
		if _, isUsed := s.used[slot]; !isUsed {
			s.used[slot] = metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
			return slot, nil
		}
	}
	return "", ErrFull
}

func (s *slots) delete(ctx context.Context, name string) (stored string, err error) {
	slot, err := s.find(ctx, name)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	uid := s.used[slot].UID
	s.mu.Unlock()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: slot}}
	err = s.writer.Delete(ctx, secret, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		// Another process has replaced the slot's content, so the Secret with this name no longer exists.
		return "", s.refresh(ctx, slot)
	}
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	s.forget(slot)
	return slot, nil
}

// scan reads all slots' metadata.
func (s *slots) scan(ctx context.Context) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(scanWorkers)
	s.mu.Lock()
	if s.used == nil {
		s.used = map[string]metav1.PartialObjectMetadata{}
	}
	s.mu.Unlock()
	for _, slot := range slotNames {
		workers.Go(func() error { return s.refresh(ctx, slot) })
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isScanned = true
	return nil
}

// refresh reads a slot's metadata. A slot that another client created without an annotation counts as used.
func (s *slots) refresh(ctx context.Context, slot string) error {
	var o metav1.PartialObjectMetadata
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: slot}, &o)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && s.skipsForbidden {
		s.forget(slot)
		return nil
	}
	if err != nil {
		return err
	}
	s.record(slot, o)
	return nil
}

func (s *slots) record(slot string, o metav1.PartialObjectMetadata) {
	o.Name = o.Annotations[v1beta2.AnnotationContentName]
	o.ManagedFields = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[slot] = o
}

func (s *slots) forget(slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.used, slot)
}
