package git

import (
	"bytes"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// maxPackBytes limits the transferred bytes.
	maxPackBytes = 64 << 20
	// maxInflatedBytes and maxObjects limit the unpacked blobs, trees and commits.
	maxInflatedBytes = 256 << 20
	maxObjects       = 500_000
	// maxFiles, maxFileBytes, maxFilesBytes and maxDepth limit the files below the path.
	maxFiles      = 20_000
	maxFileBytes  = 32 << 20
	maxFilesBytes = 128 << 20
	maxDepth      = 32
)

var errTooLarge = fmt.Errorf("the repository sends more than %d MiB: keep the fleet's files in a separate repository",
	maxPackBytes>>20)

// checkPackSize refuses a pack with too many or too large objects before it is stored.
func checkPackSize(pack []byte) error {
	scanner := packfile.NewScanner(bytes.NewReader(pack))
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	if count > maxObjects {
		return fmt.Errorf(
			"the repository sends %d objects, must be at most %d: keep the fleet's files in a separate repository",
			count, maxObjects)
	}
	total := counter{limit: maxInflatedBytes}
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		total.start = total.start[:0]
		if _, _, err := scanner.NextObject(&total); err != nil {
			return err
		}
		if header.Type == plumbing.OFSDeltaObject || header.Type == plumbing.REFDeltaObject {
			if err := total.add(targetSize(total.start)); err != nil {
				return err
			}
		}
	}
	return nil
}

// counter adds up all objects' sizes. start contains the first bytes of an object, because a delta starts with the size
// of its result.
type counter struct {
	bytes, limit int64
	start        []byte
}

func (c *counter) Write(p []byte) (int, error) {
	c.start = append(c.start, p[:min(len(p), 20-len(c.start))]...)
	return len(p), c.add(int64(len(p)))
}

func (c *counter) add(n int64) error {
	if n < 0 || n > c.limit-c.bytes {
		return fmt.Errorf(
			"the repository's objects are larger than %d MiB: keep the fleet's files in a separate repository",
			c.limit>>20)
	}
	c.bytes += n
	return nil
}

// targetSize returns the size of the object that a delta creates.
//
// Source: git, Documentation/gitformat-pack.txt, "Deltified representation".
func targetSize(delta []byte) int64 {
	var size int64
	for range 2 {
		size = 0
		for shift := 0; len(delta) > 0 && shift < 63; shift += 7 {
			b := delta[0]
			delta = delta[1:]
			size |= int64(b&0x7f) << shift
			if b&0x80 == 0 {
				break
			}
		}
	}
	return size
}
