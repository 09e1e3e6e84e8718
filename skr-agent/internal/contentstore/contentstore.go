// Package contentstore stores blobs in the cluster, so that the agent can correct drift without the registry.
//
// A blob is compressed and divided into chunks that fit into Secrets. A blob's index is written after its chunks, so a
// blob with an index is complete. A blob with one chunk does not need an index: the chunk has the index's annotations.
// Secrets are immutable and named after the digest. Each read verifies the digest of the blob.
//
// If the agent's role does not grant access to all Secrets in the namespace, the package stores Secrets in slots with
// fixed names. See slots.
//
// The package reads single Secrets and lists metadata. It does not need a Secret cache.
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
	// maxChunkBytes leaves room for base64 encoding and metadata below the 1 MiB limit for a Secret.
	maxChunkBytes = 768 << 10
	// maxBlobBytes is the maximum size of a blob before compression.
	maxBlobBytes = bundle.MaxLayerBytes

	secretPrefix = "kyma-pull-content-"

	roleIndex = "index"
	roleChunk = "chunk"
	chunkKey  = "data"
)

var (
	// ErrMissing means that the blob does not exist or is incomplete.
	ErrMissing = errors.New("content is not stored")
	// ErrBroken means that the stored blob does not match its digest. Put replaces such a blob.
	ErrBroken = errors.New("stored content does not match its digest")
)

// Store stores blobs in Secrets in one namespace. It is safe for concurrent use.
type Store struct {
	namespace string
	access    access
	written   versions
}

// New returns a store that uses the Secrets in a namespace. The reader must not have a cache, which would contain all
// Secrets.
func New(reader client.Reader, writer client.Writer, namespace string) *Store {
	return &Store{namespace: namespace, access: access{reader: reader, writer: writer, namespace: namespace}}
}

// NewReader returns a store that only reads. It finds content that the agent stored with its current role or with a
// previous one. The reader's user needs permission to get the Secrets for the blobs that it loads.
func NewReader(reader client.Client, namespace string) *Store {
	s := New(reader, reader, namespace)
	s.access.chosen = eitherName{
		byName: byName{reader: reader, writer: reader, namespace: namespace},
		slots:  &slots{reader: reader, writer: reader, namespace: namespace, skipsForbidden: true},
	}
	return s
}

// Put stores a blob. It does nothing if the blob exists. After an interruption, another Put completes the blob.
func (s *Store) Put(ctx context.Context, d digest.Digest, data []byte) error {
	if len(data) > maxBlobBytes {
		return fmt.Errorf("store content %s: %d bytes, must be at most %d", d, len(data), maxBlobBytes)
	}
	if err := verifyDigest(d, data); err != nil {
		return fmt.Errorf("store content: %w", err)
	}
	parts, err := s.listParts(ctx, d)
	if err != nil {
		return fmt.Errorf("store content %s: %w", d, err)
	}
	if isComplete(d, parts) {
		_, err := s.Load(ctx, d)
		if err == nil || !errors.Is(err, ErrBroken) && !errors.Is(err, ErrMissing) {
			return err
		}
	}
	if len(parts) > 0 {
		// Delete the index first, so that the blob is incomplete until the new index is written. Delete the chunks too,
		// because the API server does not allow an overwrite if a quota is exhausted.
		if err := s.deleteSecrets(ctx, secretNames(d, parts)...); err != nil {
			return fmt.Errorf("store content %s: %w", d, err)
		}
	}
	return s.put(ctx, d, data, s.writeSecret)
}

// Add stores a blob like Put. It needs fewer requests than Put if the blob does not exist yet.
func (s *Store) Add(ctx context.Context, d digest.Digest, data []byte) error {
	if len(data) > maxBlobBytes || verifyDigest(d, data) != nil {
		return s.Put(ctx, d, data) // Put returns an error, because the blob is invalid
	}
	err := s.put(ctx, d, data, func(ctx context.Context, secret *corev1.Secret) error {
		return s.create(ctx, secret)
	})
	if apierrors.IsAlreadyExists(err) {
		return s.Put(ctx, d, data)
	}
	if apierrors.IsForbidden(err) {
		// The API server checks the quota before it checks whether the Secret exists.
		if parts, listErr := s.listParts(ctx, d); listErr == nil && len(parts) > 0 {
			return s.Put(ctx, d, data)
		}
	}
	return err
}

// put writes a blob's chunks. If the blob has several chunks, put also writes its index. If a write fails, put deletes
// the chunks, because incomplete blobs would use up the quota.
func (s *Store) put(
	ctx context.Context, d digest.Digest, data []byte, writeSecret func(context.Context, *corev1.Secret) error,
) error {
	packed, err := compress(data)
	if err != nil {
		return fmt.Errorf("store content %s: %w", d, err)
	}
	chunks := split(packed, maxChunkBytes)
	describe := func(part *corev1.Secret) *corev1.Secret {
		part.Annotations[v1beta2.AnnotationContentChunks] = strconv.Itoa(len(chunks))
		part.Annotations[v1beta2.AnnotationContentSize] = strconv.Itoa(len(data))
		return part
	}
	var written []string
	add := func(part *corev1.Secret) error {
		err := writeSecret(ctx, part)
		if err == nil {
			written = append(written, part.Name)
			return nil
		}
		_ = s.deleteSecrets(ctx, written...) // ignore the error; the next Put replaces chunks that still exist
		return fmt.Errorf("store content %s: %w", d, err)
	}
	if len(chunks) == 1 {
		return add(describe(s.newSecret(d, chunkName(d, 0), roleChunk, map[string][]byte{chunkKey: chunks[0]})))
	}
	for i, chunk := range chunks {
		if err := add(s.newSecret(d, chunkName(d, i), roleChunk, map[string][]byte{chunkKey: chunk})); err != nil {
			return err
		}
	}
	return add(describe(s.newSecret(d, indexName(d), roleIndex, nil)))
}

// Load returns a verified blob. The error is ErrMissing, ErrBroken, or the API server's error.
func (s *Store) Load(ctx context.Context, d digest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("load content %q: %w", d, err)
	}
	first, err := s.readSecret(ctx, chunkName(d, 0))
	if err == nil {
		if data, ok := singleChunkBlob(d, first); ok {
			return data, nil
		}
	} else if !errors.Is(err, ErrMissing) {
		return nil, fmt.Errorf("load content %s: %w", d, err)
	}
	index, err := s.readSecret(ctx, indexName(d))
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w", d, err)
	}
	count, size, err := parseShape(index.Annotations)
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w: %w", d, ErrBroken, err)
	}
	var packed []byte
	for i := range count {
		chunk := first
		if i > 0 || chunk == nil {
			if chunk, err = s.readSecret(ctx, chunkName(d, i)); err != nil {
				return nil, fmt.Errorf("load content %s: %w", d, err)
			}
		}
		packed = append(packed, chunk.Data[chunkKey]...)
	}
	data, err := decompress(packed, size)
	if err == nil {
		err = verifyDigest(d, data)
	}
	if err != nil {
		return nil, fmt.Errorf("load content %s: %w: %w", d, ErrBroken, err)
	}
	return data, nil
}

// singleChunkBlob returns the blob if a Secret contains the blob's only chunk. It returns false if the blob has more
// chunks or is damaged.
func singleChunkBlob(d digest.Digest, chunk *corev1.Secret) ([]byte, bool) {
	count, size, err := parseShape(chunk.Annotations)
	if err != nil || count != 1 {
		return nil, false
	}
	data, err := decompress(chunk.Data[chunkKey], size)
	return data, err == nil && verifyDigest(d, data) == nil
}

// ListComplete returns the digests of all complete blobs. It lists metadata with one request and does not verify the
// blobs.
func (s *Store) ListComplete(ctx context.Context) (map[digest.Digest]bool, error) {
	parts, err := s.listAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("list content: %w", err)
	}
	byDigest := map[digest.Digest][]metav1.PartialObjectMetadata{}
	for _, part := range parts {
		d := BlobDigest(part.Annotations)
		byDigest[d] = append(byDigest[d], part)
	}
	whole := map[digest.Digest]bool{}
	for d, parts := range byDigest {
		if d.Validate() == nil && isComplete(d, parts) {
			whole[d] = true
		}
	}
	return whole, nil
}

// Has reports whether a blob is complete. It does not verify the blob.
func (s *Store) Has(ctx context.Context, d digest.Digest) (bool, error) {
	if err := d.Validate(); err != nil {
		return false, fmt.Errorf("check for content %q: %w", d, err)
	}
	parts, err := s.listParts(ctx, d)
	if err != nil {
		return false, fmt.Errorf("check for content %s: %w", d, err)
	}
	return isComplete(d, parts), nil
}

// listParts returns the metadata for all of a blob's Secrets.
func (s *Store) listParts(ctx context.Context, d digest.Digest) ([]metav1.PartialObjectMetadata, error) {
	return s.access.checkMetadata(s.access.choose(ctx).listBlob(ctx, shortenDigest(d)))
}

func isComplete(d digest.Digest, parts []metav1.PartialObjectMetadata) bool {
	present := map[string]metav1.PartialObjectMetadata{}
	for _, part := range parts {
		present[part.Name] = part
	}
	if only, ok := present[chunkName(d, 0)]; ok {
		if count, _, err := parseShape(only.Annotations); err == nil && count == 1 {
			return true
		}
	}
	index, ok := present[indexName(d)]
	if !ok {
		return false
	}
	count, _, err := parseShape(index.Annotations)
	if err != nil {
		return false // a blob with an invalid index is incomplete
	}
	for i := range count {
		if _, ok := present[chunkName(d, i)]; !ok {
			return false
		}
	}
	return true
}

// BlobDigest returns the blob's digest from a Secret's annotations, or "" if they do not contain a digest.
func BlobDigest(annotations map[string]string) digest.Digest {
	return digest.Digest(annotations[v1beta2.AnnotationContentDigest])
}

// Recheck reports whether a blob exists and matches its digest. It deletes a damaged blob's first chunk and index, so
// that Has returns false.
func (s *Store) Recheck(ctx context.Context, d digest.Digest) (bool, error) {
	whole, err := s.Has(ctx, d)
	if err == nil && whole {
		_, err = s.Load(ctx, d)
	}
	if err == nil && !whole || errors.Is(err, ErrBroken) || errors.Is(err, ErrMissing) {
		if err := s.deleteSecrets(ctx, chunkName(d, 0), indexName(d)); err != nil {
			return false, fmt.Errorf("delete damaged content %s: %w", d, err)
		}
		return false, nil
	}
	return err == nil, err
}

// Prune deletes all blobs except those in keep. keep must include blobs that are being written.
func (s *Store) Prune(ctx context.Context, keep map[digest.Digest]bool) error {
	parts, err := s.listAll(ctx)
	if err != nil {
		return fmt.Errorf("prune content: %w", err)
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
	// Delete indexes first, so that an interruption leaves no index without chunks.
	if err := s.deleteSecrets(ctx, append(indexes, chunks...)...); err != nil {
		return fmt.Errorf("prune content: %w", err)
	}
	return nil
}

// secretNames returns the names of a blob's Secrets. The index is first.
func secretNames(d digest.Digest, parts []metav1.PartialObjectMetadata) []string {
	var names []string
	for _, part := range parts {
		if strings.HasPrefix(part.Name, indexName(d)) {
			names = append(names, part.Name)
		}
	}
	slices.Sort(names) // the index's name is a prefix of the chunks' names
	return names
}

func (s *Store) newSecret(d digest.Digest, name, role string, data map[string][]byte) *corev1.Secret {
	immutable := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.namespace,
			Name:        name,
			Labels:      map[string]string{v1beta2.LabelContent: role, v1beta2.LabelContentDigest: shortenDigest(d)},
			Annotations: map[string]string{v1beta2.AnnotationContentDigest: d.String()},
		},
		Immutable: &immutable,
		Type:      "kyma-pull.dev/content",
		Data:      data,
	}
}

func parseShape(annotations map[string]string) (chunks, size int, err error) {
	chunks, err = strconv.Atoi(annotations[v1beta2.AnnotationContentChunks])
	if err != nil {
		return 0, 0, fmt.Errorf("index: invalid number of chunks: %w", err)
	}
	size, err = strconv.Atoi(annotations[v1beta2.AnnotationContentSize])
	if err != nil {
		return 0, 0, fmt.Errorf("index: invalid size: %w", err)
	}
	if chunks < 0 || chunks > 2*maxBlobBytes/maxChunkBytes || size < 0 || size > maxBlobBytes {
		return 0, 0, fmt.Errorf("index: %d chunks of %d bytes in total exceed the limits", chunks, size)
	}
	return chunks, size, nil
}

func verifyDigest(d digest.Digest, data []byte) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", d, err)
	}
	if got := d.Algorithm().FromBytes(data); got != d {
		return fmt.Errorf("digest is %s, expected %s", got, d)
	}
	return nil
}

// shortenDigest shortens a digest to fit into a label value (63 characters).
func shortenDigest(d digest.Digest) string {
	return d.Algorithm().String() + "-" + d.Encoded()[:32]
}

func indexName(d digest.Digest) string {
	return secretPrefix + strings.ReplaceAll(d.String(), ":", "-")
}

func chunkName(d digest.Digest, i int) string {
	return fmt.Sprintf("%s-%d", indexName(d), i)
}
