package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// MaxUnpackedBytes bounds a layer after decompression.
	MaxUnpackedBytes = 128 << 20
	// MaxEntries bounds the members of a tar, whether they are used or not.
	MaxEntries = 2_000
	// maxRatio bounds unpacked to packed bytes. Text reaches 20; a bomb 1,000.
	maxRatio = 100
	// freeBytes may be unpacked whatever the ratio: a small tar is mostly padding.
	freeBytes = 1 << 20
)

// file is one YAML file of the content.
type file struct {
	name string
	data []byte
}

// unpack gives the YAML files of a blob, sorted by path. Sizes are counted as bytes come out of the decompressor; what headers
// say about them is not believed.
func unpack(data []byte, mustBeTar bool) ([]file, error) {
	if len(data) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("content of %d bytes, at most %d", len(data), bundle.MaxLayerBytes)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		plain, err := gunzip(data)
		if err != nil {
			return nil, fmt.Errorf("content: %w", err)
		}
		data = plain
	}
	if mustBeTar || isTar(data) {
		return untar(data)
	}
	return []file{{name: "content", data: data}}, nil
}

func gunzip(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	limit := min(MaxUnpackedBytes, max(freeBytes, maxRatio*len(data)))
	plain, err := io.ReadAll(io.LimitReader(reader, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if len(plain) > limit {
		return nil, fmt.Errorf("gzip: %d bytes unpack to more than %d", len(data), limit)
	}
	return plain, nil
}

// isTar looks for the magic of POSIX and GNU tars. YAML cannot have it: it is preceded by zero bytes.
func isTar(data []byte) bool {
	return len(data) >= 512 && bytes.Equal(data[257:262], []byte("ustar")) && bytes.IndexByte(data[:257], 0) >= 0
}

func untar(data []byte) ([]file, error) {
	var files []file
	seen := map[string]bool{}
	members := tar.NewReader(bytes.NewReader(data))
	unpacked := 0
	for entries := 1; ; entries++ {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tar: %w", err)
		}
		if entries > MaxEntries {
			return nil, fmt.Errorf("tar: more than %d entries", MaxEntries)
		}
		wanted, err := admit(header)
		if err != nil {
			return nil, fmt.Errorf("tar: %w", err)
		}
		if !wanted {
			continue
		}
		name := path.Clean(header.Name)
		if seen[name] {
			return nil, fmt.Errorf("tar: %s appears twice", name)
		}
		seen[name] = true
		// A sparse member can be longer than the tar it is in, so the sum is bounded by itself.
		body, err := io.ReadAll(io.LimitReader(members, int64(MaxUnpackedBytes-unpacked)+1))
		if err != nil {
			return nil, fmt.Errorf("tar: %s: %w", name, err)
		}
		if unpacked += len(body); unpacked > MaxUnpackedBytes {
			return nil, fmt.Errorf("tar: %s: files of more than %d bytes in all", name, MaxUnpackedBytes)
		}
		files = append(files, file{name: name, data: body})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// admit tells whether a member is a YAML file. Members that have no business in a module are an error even though nothing
// is ever written to a disk: a module that carries them was not packed by anybody who knew what is inside.
func admit(header *tar.Header) (bool, error) {
	name := header.Name
	if path.IsAbs(name) || strings.Contains(name, `\`) || slices.Contains(strings.Split(name, "/"), "..") {
		return false, fmt.Errorf("path %q leaves its folder", name)
	}
	switch header.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return false, nil
	default:
		return false, fmt.Errorf("%s is neither file nor folder (type %q)", name, header.Typeflag)
	}
	base := path.Base(name)
	if strings.HasPrefix(base, "._") { // macOS puts a file's attributes there, under the file's own extension
		return false, nil
	}
	extension := path.Ext(base)
	return extension == ".yaml" || extension == ".yml", nil
}
