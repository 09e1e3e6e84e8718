package ocm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	maxSetEntries  = 2_000
	maxSetBytes    = 128 << 20
	maxSetRatio    = 100
	freeSetBytes   = 1 << 20
	maxIndexBytes  = 1 << 20
	mainAnnotation = "software.ocm/main"
)

// ArtifactSet is an OCI artifact packed into one blob, as components carry charts and images as local blobs.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md, "Artifact Set Archive".
type ArtifactSet struct {
	// Main is the manifest or index that the set is about.
	Main  ocispec.Descriptor
	blobs map[digest.Digest][]byte
}

var setBlob = regexp.MustCompile(`^blobs/(?:sha256[./][0-9a-f]{64}|sha512[./][0-9a-f]{128})$`)

// OpenArtifactSet reads a set from a tar, compressed or not. Nothing is checked of a blob before Blob gives it.
func OpenArtifactSet(data []byte) (*ArtifactSet, error) {
	set, err := openArtifactSet(data)
	if err != nil {
		return nil, fmt.Errorf("artifact set: %w", err)
	}
	return set, nil
}

func openArtifactSet(data []byte) (*ArtifactSet, error) {
	plain, err := unzipped(data)
	if err != nil {
		return nil, err
	}
	set := &ArtifactSet{blobs: map[digest.Digest][]byte{}}
	var indexes [2][]byte // index.json, artifact-descriptor.json
	members := tar.NewReader(bytes.NewReader(plain))
	seen := map[string]bool{}
	for entries := 1; ; entries++ {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if entries > maxSetEntries {
			return nil, fmt.Errorf("more than %d entries", maxSetEntries)
		}
		name := strings.TrimPrefix(header.Name, "./")
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || seen[name] {
			return nil, fmt.Errorf("%q appears twice or is no plain file", header.Name)
		}
		seen[name] = true
		// A sparse member can be longer than the tar that it is in.
		body, err := io.ReadAll(io.LimitReader(members, int64(len(plain))+1))
		if err != nil {
			return nil, err
		}
		if len(body) > len(plain) {
			return nil, fmt.Errorf("%q is longer than its archive", header.Name)
		}
		switch {
		case name == "index.json":
			indexes[0] = body
		case name == "artifact-descriptor.json":
			indexes[1] = body
		case name == "oci-layout":
		case setBlob.MatchString(name):
			text := strings.Replace(strings.TrimPrefix(name, "blobs/"), ".", ":", 1)
			set.blobs[digest.Digest(strings.Replace(text, "/", ":", 1))] = body
		default:
			return nil, fmt.Errorf("unexpected member %q", header.Name)
		}
	}
	index := indexes[0]
	if index == nil {
		index = indexes[1]
	}
	if index == nil {
		return nil, errors.New("has no index.json")
	}
	set.Main, err = mainOf(index)
	return set, err
}

func unzipped(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	source := bytes.NewReader(data)
	reader, err := gzip.NewReader(source)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	reader.Multistream(false)
	limit := min(maxSetBytes, max(freeSetBytes, maxSetRatio*len(data)))
	plain, err := io.ReadAll(io.LimitReader(reader, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if len(plain) > limit {
		return nil, fmt.Errorf("gzip: %d bytes unpack to more than %d", len(data), limit)
	}
	if source.Len() > 0 {
		return nil, fmt.Errorf("gzip: %d bytes follow its end", source.Len())
	}
	return plain, nil
}

func mainOf(index []byte) (ocispec.Descriptor, error) {
	if len(index) > maxIndexBytes {
		return ocispec.Descriptor{}, fmt.Errorf("index: larger than %d bytes", maxIndexBytes)
	}
	var document ocispec.Index
	if err := json.Unmarshal(index, &document); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("index: %w", err)
	}
	wanted := document.Annotations[mainAnnotation]
	var found []ocispec.Descriptor
	for _, m := range document.Manifests {
		if wanted == "" || m.Digest.String() == wanted {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return ocispec.Descriptor{}, fmt.Errorf("index: %d manifests, and none is named as the main one", len(found))
	}
	if err := found[0].Digest.Validate(); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("index: manifests: %w", err)
	}
	return found[0], nil
}

// Blob gives a blob of the set, checked against its digest.
func (s *ArtifactSet) Blob(d digest.Digest) ([]byte, error) {
	data, ok := s.blobs[d]
	if !ok {
		return nil, fmt.Errorf("artifact set: has no blob %s", d)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("artifact set: blob %q: %w", d, err)
	}
	if actual := d.Algorithm().FromBytes(data); actual != d {
		return nil, fmt.Errorf("artifact set: blob %s has digest %s", d, actual)
	}
	return data, nil
}
