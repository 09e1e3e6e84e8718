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
	"slices"
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

// ArtifactSet is an OCI artifact in one tar archive, with its index, manifests and blobs.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md, "Artifact Set Archive".
type ArtifactSet struct {
	// Main is the set's main manifest or index.
	Main  ocispec.Descriptor
	blobs map[digest.Digest][]byte
}

var setFolders = []string{"", ".", "blobs", "blobs/sha256", "blobs/sha512"}

var setBlob = regexp.MustCompile(`^blobs/(?:sha256[./][0-9a-f]{64}|sha512[./][0-9a-f]{128})$`)

// OpenArtifactSet reads an artifact set from a tar archive, which can be gzip-compressed. It limits the number of
// entries, the unpacked size and the compression ratio. It does not check digests; see Blob.
func OpenArtifactSet(data []byte) (*ArtifactSet, error) {
	set, err := openArtifactSet(data)
	if err != nil {
		return nil, fmt.Errorf("artifact set: %w", err)
	}
	return set, nil
}

func openArtifactSet(data []byte) (*ArtifactSet, error) {
	plain, err := gunzip(data)
	if err != nil {
		return nil, err
	}
	// Require the magic number of a tar. Without it, another program could parse the same bytes as a different format,
	// such as YAML.
	if len(plain) < 512 || !bytes.Equal(plain[257:262], []byte("ustar")) {
		return nil, errors.New("the content is not a tar archive")
	}
	contents := setContents{blobs: map[digest.Digest][]byte{}}
	if err := contents.readFrom(tar.NewReader(bytes.NewReader(plain)), len(plain)); err != nil {
		return nil, err
	}
	index, err := contents.findIndex()
	if err != nil {
		return nil, err
	}
	set := &ArtifactSet{blobs: contents.blobs}
	set.Main, err = mainManifest(index)
	return set, err
}

type setContents struct {
	blobs                     map[digest.Digest][]byte
	index, artifactDescriptor []byte
}

// readFrom reads all entries in the archive. It returns an error if they are larger in total than maxBytes, the size of
// the archive.
func (c *setContents) readFrom(members *tar.Reader, maxBytes int) error {
	seen := map[string]bool{}
	for entries := 1; ; entries++ {
		header, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entries > maxSetEntries:
			return fmt.Errorf("the archive has more than %d entries", maxSetEntries)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(header.Name, "./"), "/")
		switch {
		case seen[name]:
			return fmt.Errorf("%q appears twice", header.Name)
		case header.Typeflag == tar.TypeDir && !slices.Contains(setFolders, name):
			return fmt.Errorf("unexpected folder %q", header.Name)
		case header.Typeflag != tar.TypeDir && header.Typeflag != tar.TypeReg:
			return fmt.Errorf("%q is not a regular file", header.Name)
		}
		seen[name] = true
		if header.Typeflag == tar.TypeDir {
			continue
		}
		// Limit the read, because a sparse entry in a tar can be larger than the tar.
		body, err := io.ReadAll(io.LimitReader(members, int64(maxBytes)+1))
		if err != nil {
			return err
		}
		if maxBytes -= len(body); maxBytes < 0 {
			return fmt.Errorf("%q: the entries are larger than the archive", header.Name)
		}
		if err := c.addEntry(name, body); err != nil {
			return err
		}
	}
}

func (c *setContents) addEntry(name string, body []byte) error {
	switch {
	case name == "index.json":
		c.index = body
	case name == "artifact-descriptor.json":
		c.artifactDescriptor = body
	case name == "oci-layout":
	case setBlob.MatchString(name):
		algorithm, hex := name[len("blobs/"):len("blobs/sha256")], name[len("blobs/sha256/"):]
		d := digest.NewDigestFromEncoded(digest.Algorithm(algorithm), hex)
		if _, ok := c.blobs[d]; ok {
			return fmt.Errorf("blob %s appears twice", d)
		}
		c.blobs[d] = body
	default:
		return fmt.Errorf("unexpected member %q", name)
	}
	return nil
}

// findIndex returns index.json or artifact-descriptor.json. An artifact set must contain exactly one of the two files.
func (c *setContents) findIndex() ([]byte, error) {
	switch {
	case c.index == nil && c.artifactDescriptor == nil:
		return nil, errors.New("index.json is missing")
	case c.index != nil && c.artifactDescriptor != nil:
		return nil, errors.New("index.json and artifact-descriptor.json must not both exist")
	}
	return slices.Concat(c.index, c.artifactDescriptor), nil
}

func gunzip(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		if len(data) > maxSetBytes {
			return nil, fmt.Errorf("the archive is larger than %d bytes", maxSetBytes)
		}
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
		return nil, fmt.Errorf("gzip: %d bytes unpack to more than %d bytes", len(data), limit)
	}
	if source.Len() > 0 {
		return nil, fmt.Errorf("gzip: found %d bytes after the end of the stream", source.Len())
	}
	return plain, nil
}

func mainManifest(index []byte) (ocispec.Descriptor, error) {
	if len(index) > maxIndexBytes {
		return ocispec.Descriptor{}, fmt.Errorf("index is larger than %d bytes", maxIndexBytes)
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
		return ocispec.Descriptor{}, fmt.Errorf("index: %d manifests can be the main manifest, must be exactly one",
			len(found))
	}
	if err := found[0].Digest.Validate(); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("index: manifests: %w", err)
	}
	return found[0], nil
}

// Blob returns a blob from the set and checks its digest.
func (s *ArtifactSet) Blob(d digest.Digest) ([]byte, error) {
	data, ok := s.blobs[d]
	if !ok {
		return nil, fmt.Errorf("artifact set has no blob %s", d)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("artifact set: blob %q: %w", d, err)
	}
	if actual := d.Algorithm().FromBytes(data); actual != d {
		return nil, fmt.Errorf("artifact set: blob %s has digest %s", d, actual)
	}
	return data, nil
}
