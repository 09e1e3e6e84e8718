package render

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	// MaxUnpackedBytes limits the size of a layer after decompression.
	MaxUnpackedBytes = 128 << 20
	// MaxEntries limits the number of entries in a tar.
	MaxEntries = 2_000
	// maxRatio limits the ratio of unpacked to packed bytes. Normal text reaches 20, and a zip bomb 1,000.
	maxRatio = 100
	// freeBytes is an unpacked size. maxRatio limits only larger tars, because small tars are mostly padding.
	freeBytes = 1 << 20
	// maxPathBytes and maxPathDepth limit the path of a tar entry.
	maxPathBytes, maxPathDepth = 256, 16
)

type file struct {
	name string
	data []byte
}

// unpack returns the YAML and JSON files in a blob, sorted by path. It limits the actual size of the data, because
// sizes in headers can be wrong.
func unpack(data []byte, mustBeTar bool, maxBytes int) ([]file, error) {
	data, err := decompress(data, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	if mustBeTar || isTar(data) {
		return newBudget(maxBytes).untar(data, IsManifest)
	}
	return []file{{name: "content", data: data}}, nil
}

// budget counts the bytes and entries in an archive and its nested archives. The limits apply to the totals.
type budget struct {
	maxBytes, unpacked, entries int
}

func newBudget(maxBytes int) *budget { return &budget{maxBytes: maxBytes} }

// isTar reports whether data is a POSIX or GNU tar.
func isTar(data []byte) bool {
	return len(data) >= 512 && bytes.Equal(data[257:262], []byte("ustar")) && bytes.IndexByte(data[:257], 0) >= 0
}

// untar returns the wanted files from a tar, sorted by path.
func (b *budget) untar(data []byte, wanted func(name string) bool) ([]file, error) {
	var files []file
	seen := map[string]string{}
	members := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tar: %w", err)
		}
		if b.entries++; b.entries > MaxEntries {
			return nil, fmt.Errorf("tar: more than %d entries", MaxEntries)
		}
		isFile, err := isRegularFile(header)
		if err != nil {
			return nil, fmt.Errorf("tar: %w", err)
		}
		name := path.Clean(header.Name)
		// tar on macOS adds a file ._NAME with attributes for each file NAME.
		if !isFile || strings.HasPrefix(path.Base(name), "._") || !wanted(name) {
			continue
		}
		if other, twice := seen[strings.ToLower(name)]; twice && other != name {
			return nil, fmt.Errorf("tar: %s and %s differ only in case", other, name)
		} else if twice {
			return nil, fmt.Errorf("tar: %s appears twice", name)
		}
		seen[strings.ToLower(name)] = name
		// A sparse entry can be larger than the tar itself, so limit the total size of the files.
		body, err := io.ReadAll(io.LimitReader(members, int64(b.maxBytes-b.unpacked)+1))
		if err != nil {
			return nil, fmt.Errorf("tar: %s: %w", name, err)
		}
		if b.unpacked += len(body); b.unpacked > b.maxBytes {
			return nil, fmt.Errorf("tar: %s: the files are more than %d bytes in total", name, b.maxBytes)
		}
		files = append(files, file{name: name, data: body})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// isRegularFile reports whether a tar entry is a regular file. It returns an error for links, devices and paths outside
// the archive's folder, which show that the archive is damaged or malicious.
func isRegularFile(header *tar.Header) (bool, error) {
	name := header.Name
	if path.IsAbs(name) || strings.ContainsAny(name, "\\\x00") || slices.Contains(strings.Split(name, "/"), "..") {
		return false, fmt.Errorf("path %q is outside of the folder", name)
	}
	if len(name) > maxPathBytes || strings.Count(name, "/") > maxPathDepth {
		return false,
			fmt.Errorf("path %.40q... is longer than %d bytes or deeper than %d folders", name, maxPathBytes,
				maxPathDepth)
	}
	switch header.Typeflag {
	case tar.TypeReg:
		return true, nil
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return false, nil
	}
	return false, fmt.Errorf("%s is not a file or folder (type %q)", name, header.Typeflag)
}

const extensionJSON = ".json"

// IsManifest reports whether a file contains YAML or JSON according to its name.
func IsManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", extensionJSON}, strings.ToLower(path.Ext(name)))
}
