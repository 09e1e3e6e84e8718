// Package contentstore keeps blobs in the cluster, so that what is installed can be put right while everything else is
// gone.
//
// In go bytes and their digest; out come the same bytes, checked against that digest on every read. A blob is
// compressed, cut into chunks that fit into a Secret, and written chunk by chunk with its index last: a blob whose
// index can be read was written whole. Secrets are immutable and named after the digest, so that no blob can change
// under its name.
//
// The package reads single Secrets and lists by label; it never needs a cache of a cluster's Secrets.
package contentstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxChunkBytes leaves room for base64 and metadata below the 1 MiB that a Secret may hold.
	maxChunkBytes = 768 << 10
	// MaxBlobBytes bounds a blob before compression: the largest layer that a bundle may name.
	MaxBlobBytes = bundle.MaxLayerBytes

	prefix = "kyma-pull-content-"

	roleIndex = "index"
	roleChunk = "chunk"
	chunkKey  = "data"
)

var (
	// ErrMissing says that the blob is not there, or not whole.
	ErrMissing = errors.New("content is not stored")
	// ErrBroken says that the blob is there and is not what its digest says. Putting it again replaces it.
	ErrBroken = errors.New("stored content is broken")
)

// Store keeps blobs in Secrets of one namespace. It holds no state of its own and may be used by several goroutines.
type Store struct {
	reader    client.Reader
	writer    client.Writer
	namespace string
}

// New returns a store over the Secrets of a namespace. The reader must read from the API server and not from a cache,
// or a cache of all Secrets comes into being behind it.
func New(reader client.Reader, writer client.Writer, namespace string) *Store {
	return &Store{reader: reader, writer: writer, namespace: namespace}
}

// Put stores a blob. It promises that after it returned without error, Load gives the same bytes; when it is
// interrupted, the blob is missing and a second Put completes it. A blob that is there already is left alone.
func (s *Store) Put(ctx context.Context, d digest.Digest, data []byte) error {
	if len(data) > MaxBlobBytes {
		return fmt.Errorf("store content %s: %d bytes, at most %d", d, len(data), MaxBlobBytes)
	}
	if err := check(d, data); err != nil {
		return fmt.Errorf("store content: %w", err)
	}
	parts, err := s.parts(ctx, d)
	if err != nil {
		return fmt.Errorf("store content %s: %w", d, err)
	}
	if isWhole(d, parts) {
		_, err := s.Load(ctx, d)
		if err == nil || !errors.Is(err, ErrBroken) && !errors.Is(err, ErrMissing) {
			return err
		}
	}
	if len(parts) > 0 {
		// The index goes first: until the new one is written the blob counts as missing. The rest goes too, as a quota that
		// is used up would refuse to write over it.
		if err := s.drop(ctx, namesOf(d, parts)...); err != nil {
			return fmt.Errorf("store content %s: %w", d, err)
		}
	}
	return s.put(ctx, d, data, s.write)
}

// Add is Put for a blob of which nothing seems to be there. It does not look first: what is there all the same is found
// when it is written.
func (s *Store) Add(ctx context.Context, d digest.Digest, data []byte) error {
	if len(data) > MaxBlobBytes || check(d, data) != nil {
		return s.Put(ctx, d, data) // says why not
	}
	err := s.put(ctx, d, data, func(ctx context.Context, secret *corev1.Secret) error { return s.writer.Create(ctx, secret) })
	if apierrors.IsAlreadyExists(err) {
		return s.Put(ctx, d, data)
	}
	if apierrors.IsForbidden(err) {
		// A quota refuses before it is looked whether something is there.
		if parts, listErr := s.parts(ctx, d); listErr == nil && len(parts) > 0 {
			return s.Put(ctx, d, data)
		}
	}
	return err
}

// put writes the chunks of a blob, and then its index. A chunk that is the only one says so, and can be read without
// the index. What it has written is dropped when the rest is refused: under a quota, many blobs of which each has a
// part would leave room for none.
func (s *Store) put(ctx context.Context, d digest.Digest, data []byte, write func(context.Context, *corev1.Secret) error) error {
	packed, err := compress(data)
	if err != nil {
		return fmt.Errorf("store content %s: %w", d, err)
	}
	chunks := split(packed, maxChunkBytes)
	describe := func(part *corev1.Secret) *corev1.Secret {
		part.Annotations[v1beta2.AnnotationContentChunks], part.Annotations[v1beta2.AnnotationContentSize] = strconv.Itoa(len(chunks)), strconv.Itoa(len(data))
		return part
	}
	var written []string
	add := func(part *corev1.Secret) error {
		err := write(ctx, part)
		if err == nil {
			written = append(written, part.Name)
			return nil
		}
		_ = s.drop(ctx, written...) // what stays all the same is found by the next one
		return fmt.Errorf("store content %s: %w", d, err)
	}
	for i, chunk := range chunks {
		part := s.secret(d, chunkName(d, i), roleChunk, map[string][]byte{chunkKey: chunk})
		if len(chunks) == 1 {
			describe(part)
		}
		if err := add(part); err != nil {
			return err
		}
	}
	return add(describe(s.secret(d, indexName(d), roleIndex, nil)))
}

// Load returns a blob, verified. The error is ErrMissing, ErrBroken, or that of the API server.
func (s *Store) Load(ctx context.Context, d digest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("load content %q: %w", d, err)
	}
	first, err := s.read(ctx, chunkName(d, 0))
	if err == nil {
		if data, ok := only(d, first); ok {
			return data, nil
		}
	} else if !errors.Is(err, ErrMissing) {
		return nil, fmt.Errorf("load content %s: %w", d, err)
	}
	index, err := s.read(ctx, indexName(d))
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w", d, err)
	}
	count, size, err := shape(index.Annotations)
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w: %w", d, ErrBroken, err)
	}
	var packed []byte
	for i := range count {
		chunk := first
		if i > 0 || chunk == nil {
			if chunk, err = s.read(ctx, chunkName(d, i)); err != nil {
				return nil, fmt.Errorf("load content %s: %w", d, err)
			}
		}
		packed = append(packed, chunk.Data[chunkKey]...)
	}
	data, err := decompress(packed, size)
	if err == nil {
		err = check(d, data)
	}
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w: %w", d, ErrBroken, err)
	}
	return data, nil
}

// only returns the blob that a chunk holds if it says to be the only one, and is as the digest says.
func only(d digest.Digest, chunk *corev1.Secret) ([]byte, bool) {
	count, size, err := shape(chunk.Annotations)
	if err != nil || count != 1 {
		return nil, false
	}
	data, err := decompress(chunk.Data[chunkKey], size)
	return data, err == nil && check(d, data) == nil
}

// Whole returns the blobs of which all parts are there, as Has does for one, in one request.
func (s *Store) Whole(ctx context.Context) (map[digest.Digest]bool, error) {
	parts, err := s.list(ctx, client.HasLabels{v1beta2.LabelContent})
	if err != nil {
		return nil, fmt.Errorf("look for content: %w", err)
	}
	byDigest := map[digest.Digest][]metav1.PartialObjectMetadata{}
	for _, part := range parts {
		d := DigestOf(part.Annotations)
		byDigest[d] = append(byDigest[d], part)
	}
	whole := map[digest.Digest]bool{}
	for d, parts := range byDigest {
		if d.Validate() == nil && isWhole(d, parts) {
			whole[d] = true
		}
	}
	return whole, nil
}

// Has reports whether all parts of a blob are there. It reads metadata only, so it does not report whether they are
// intact.
func (s *Store) Has(ctx context.Context, d digest.Digest) (bool, error) {
	if err := d.Validate(); err != nil {
		return false, fmt.Errorf("look for content %q: %w", d, err)
	}
	parts, err := s.parts(ctx, d)
	if err != nil {
		return false, fmt.Errorf("look for content %s: %w", d, err)
	}
	return isWhole(d, parts), nil
}

// parts returns what is there of a blob.
func (s *Store) parts(ctx context.Context, d digest.Digest) ([]metav1.PartialObjectMetadata, error) {
	return s.list(ctx, client.MatchingLabels{v1beta2.LabelContentDigest: short(d)})
}

func isWhole(d digest.Digest, parts []metav1.PartialObjectMetadata) bool {
	present := map[string]metav1.PartialObjectMetadata{}
	for _, part := range parts {
		present[part.Name] = part
	}
	index, ok := present[indexName(d)]
	if !ok {
		return false
	}
	count, _, err := shape(index.Annotations)
	if err != nil {
		return false // an index that says nothing stands for no blob
	}
	for i := range count {
		if _, ok := present[chunkName(d, i)]; !ok {
			return false
		}
	}
	return true
}

// DigestOf returns the digest of the blob that a Secret with these annotations is part of, empty for a Secret of
// something else.
func DigestOf(annotations map[string]string) digest.Digest {
	return digest.Digest(annotations[v1beta2.AnnotationContentDigest])
}

// Recheck reports whether a blob is there as its digest says. One that is not counts as missing from then on, also for
// Has.
func (s *Store) Recheck(ctx context.Context, d digest.Digest) (bool, error) {
	whole, err := s.Has(ctx, d)
	if err == nil && whole {
		_, err = s.Load(ctx, d)
	}
	if err == nil && !whole || errors.Is(err, ErrBroken) || errors.Is(err, ErrMissing) {
		if err := s.drop(ctx, indexName(d)); err != nil {
			return false, fmt.Errorf("drop what is left of content %s: %w", d, err)
		}
		return false, nil
	}
	return err == nil, err
}

// Prune deletes every blob that is not to be kept, and what interrupted writes left behind. A blob that is being put at
// the same time must be among those to keep. It gives the number of blobs deleted.
func (s *Store) Prune(ctx context.Context, keep map[digest.Digest]bool) (int, error) {
	parts, err := s.list(ctx, client.HasLabels{v1beta2.LabelContent})
	if err != nil {
		return 0, fmt.Errorf("prune content: %w", err)
	}
	var indexes, chunks []string
	for _, part := range parts {
		switch {
		case keep[digest.Digest(part.Annotations[v1beta2.AnnotationContentDigest])]:
		case part.Labels[v1beta2.LabelContent] == roleIndex:
			indexes = append(indexes, part.Name)
		default:
			chunks = append(chunks, part.Name)
		}
	}
	// Indexes go first, so that an interrupted prune leaves chunks without an index and never the other way round.
	if err := s.drop(ctx, append(indexes, chunks...)...); err != nil {
		return 0, fmt.Errorf("prune content: %w", err)
	}
	return len(indexes), nil
}

func (s *Store) list(ctx context.Context, selector client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var found metav1.PartialObjectMetadataList
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := s.reader.List(ctx, &found, client.InNamespace(s.namespace), selector); err != nil {
		return nil, err
	}
	return found.Items, nil
}

func (s *Store) read(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("secret %s/%s: %w", s.namespace, name, ErrMissing)
	}
	return &secret, err
}

// write replaces what an interrupted Put, or one of another version of this program, left under the same name.
func (s *Store) write(ctx context.Context, secret *corev1.Secret) error {
	err := s.writer.Create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := s.drop(ctx, secret.Name); err != nil {
		return err
	}
	secret.ResourceVersion = ""
	return s.writer.Create(ctx, secret)
}

// drop deletes Secrets in this order, until one cannot be.
func (s *Store) drop(ctx context.Context, names ...string) error {
	for _, name := range names {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		if err := s.writer.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the names of the parts of a blob, its index first.
func namesOf(d digest.Digest, parts []metav1.PartialObjectMetadata) []string {
	var names []string
	for _, part := range parts {
		if strings.HasPrefix(part.Name, indexName(d)) {
			names = append(names, part.Name)
		}
	}
	slices.Sort(names) // the name of the index begins all others
	return names
}

func (s *Store) secret(d digest.Digest, name, role string, data map[string][]byte) *corev1.Secret {
	immutable := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.namespace,
			Name:        name,
			Labels:      map[string]string{v1beta2.LabelContent: role, v1beta2.LabelContentDigest: short(d)},
			Annotations: map[string]string{v1beta2.AnnotationContentDigest: d.String()},
		},
		Immutable: &immutable,
		Type:      "kyma-pull.dev/content",
		Data:      data,
	}
}

func shape(annotations map[string]string) (chunks, size int, err error) {
	chunks, err = strconv.Atoi(annotations[v1beta2.AnnotationContentChunks])
	if err != nil {
		return 0, 0, fmt.Errorf("index: number of chunks: %w", err)
	}
	size, err = strconv.Atoi(annotations[v1beta2.AnnotationContentSize])
	if err != nil {
		return 0, 0, fmt.Errorf("index: size: %w", err)
	}
	if chunks < 0 || chunks > 2*MaxBlobBytes/maxChunkBytes || size < 0 || size > MaxBlobBytes {
		return 0, 0, fmt.Errorf("index: %d chunks of %d bytes in all are out of bounds", chunks, size)
	}
	return chunks, size, nil
}

func check(d digest.Digest, data []byte) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", d, err)
	}
	if got := d.Algorithm().FromBytes(data); got != d {
		return fmt.Errorf("digest is %s, want %s", got, d)
	}
	return nil
}

// short is the start of a digest: a label has room for 63 characters.
func short(d digest.Digest) string {
	return d.Algorithm().String() + "-" + d.Encoded()[:32]
}

func indexName(d digest.Digest) string {
	return prefix + strings.ReplaceAll(d.String(), ":", "-")
}

func chunkName(d digest.Digest, i int) string {
	return fmt.Sprintf("%s-%d", indexName(d), i)
}
