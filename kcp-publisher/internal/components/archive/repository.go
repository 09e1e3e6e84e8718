package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	kjson "sigs.k8s.io/json"

	"github.com/kyma-pull/kyma-pull/bundle"
)

type repository struct {
	name        string
	archivePath string // the archive's path, for messages
	index       *index
	blobs       blobReader
}

// Resolve returns a manifest's descriptor by tag or digest.
func (r repository) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	named, ok := r.index.find(r.name, reference)
	if !ok {
		named.Digest = digest.Digest(reference)
		if _, err := blobName(named.Digest); err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("%s:%s in %s: %w", r.name, reference, r.archivePath, errdef.ErrNotFound)
		}
	}
	data, err := r.manifest(named.Digest)
	if ok && errors.Is(err, errdef.ErrNotFound) { // the archive is damaged
		err = fmt.Errorf("manifest %s is in the index but not in the archive: fetch the archive again", named.Digest)
	}
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s:%s in %s: %w", r.name, reference, r.archivePath, err)
	}
	mediaType, err := manifestMediaType(data)
	if err == nil && named.MediaType != "" && named.MediaType != mediaType {
		err = fmt.Errorf("mediaType is %q in the index and %q in the manifest", named.MediaType, mediaType)
	}
	if err != nil {
		return ocispec.Descriptor{},
			fmt.Errorf("%s:%s in %s: manifest %s: %w", r.name, reference, r.archivePath, named.Digest, err)
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: named.Digest, Size: int64(len(data))}, nil
}

func (r repository) manifest(d digest.Digest) ([]byte, error) {
	body, err := openVerified(r.blobs, r.archivePath, ocispec.Descriptor{Digest: d})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readBounded(body, "manifest "+d.String(), bundle.MaxManifestBytes)
}

// Fetch opens a blob. The last read returns an error if the content does not match the digest.
func (r repository) Fetch(_ context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	return openVerified(r.blobs, r.archivePath, target)
}

// Exists reports whether the archive contains the blob. It returns an error if the blob's size differs from the size in
// target.
func (r repository) Exists(_ context.Context, target ocispec.Descriptor) (bool, error) {
	body, err := openVerified(r.blobs, r.archivePath, target)
	if errors.Is(err, errdef.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, body.Close()
}

const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// manifestMediaType determines the media type of a manifest or image index from its fields. It returns an error if the
// field mediaType does not match the other fields.
func manifestMediaType(manifest []byte) (string, error) {
	var m struct {
		MediaType string          `json:"mediaType"`
		Config    json.RawMessage `json:"config"`
		Layers    json.RawMessage `json:"layers"`
		Manifests json.RawMessage `json:"manifests"`
	}
	doubts, err := kjson.UnmarshalStrict(manifest, &m, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(doubts, err)...); err != nil {
		return "", err
	}
	image, list := m.Config != nil || m.Layers != nil, m.Manifests != nil
	switch {
	case image == list: // the document is both an image manifest and an index, or neither
		return "", errors.New("not an image manifest or image index")
	case m.MediaType == "" && image:
		return ocispec.MediaTypeImageManifest, nil
	case m.MediaType == "" && list:
		return ocispec.MediaTypeImageIndex, nil
	case image && (m.MediaType == ocispec.MediaTypeImageManifest || m.MediaType == dockerManifest),
		list && (m.MediaType == ocispec.MediaTypeImageIndex || m.MediaType == dockerList):
		return m.MediaType, nil
	}
	return "", fmt.Errorf("mediaType %q does not match the fields of the manifest", m.MediaType)
}

func isManifest(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerList:
		return true
	}
	return false
}

func openVerified(from blobReader, where string, target ocispec.Descriptor) (io.ReadCloser, error) {
	body, size, err := from.open(target.Digest)
	if err != nil {
		return nil, fmt.Errorf("blob %s in %s: %w", target.Digest, where, err)
	}
	if target.Size != 0 && target.Size != size {
		body.Close()
		return nil,
			fmt.Errorf("blob %s in %s: is %d bytes, must be %d: fetch the archive again", target.Digest, where, size,
				target.Size)
	}
	return &verifyingReader{body: body, hash: target.Digest.Algorithm().Digester(), want: target.Digest,
		archivePath: where}, nil
}

// verifyingReader reads a blob. Its last read returns an error if the content does not match the digest.
type verifyingReader struct {
	body        io.ReadCloser
	hash        digest.Digester
	want        digest.Digest
	archivePath string
}

func (v *verifyingReader) Read(p []byte) (int, error) {
	n, err := v.body.Read(p)
	v.hash.Hash().Write(p[:n])
	if errors.Is(err, io.EOF) {
		if is := v.hash.Digest(); is != v.want {
			return n,
				fmt.Errorf("blob %s in %s: its content has digest %s: fetch the archive again", v.want, v.archivePath, is)
		}
	}
	return n, err
}

func (v *verifyingReader) Close() error { return v.body.Close() }

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return data, err
}
