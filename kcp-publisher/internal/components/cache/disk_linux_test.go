package cache

import (
	"bytes"
	"fmt"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestCacheServesPinnedDigestsAndBlobsOnFullDisk(t *testing.T) {
	from := newSource()
	var blobs []ocispec.Descriptor
	for n := range 12 {
		blobs = append(blobs, from.add(bytes.Repeat([]byte{byte(n)}, 9000)))
	}
	clitest.EachShortage(t, func(dir string) {
		c := open(t, dir, 1<<30)
		for _, blob := range blobs[:10] {
			fetch(t, c, from, blob)
		}
	}, func(t *testing.T, disk clitest.Disk) bool {
		c := open(t, disk.Dir, 1<<30)
		for n := range 3 {
			if err := c.Pin(fmt.Sprint("component ", n), blobs[n].Digest); err != nil {
				t.Error(err)
			}
		}
		for _, blob := range blobs {
			fetch(t, c, from, blob)
		}
		again := open(t, disk.Dir, 1<<30)
		for n := range 3 {
			if d, ok := again.Pinned(fmt.Sprint("component ", n)); !ok || d != blobs[n].Digest {
				t.Errorf("got digest %[2]s for pin %[1]d", n, d)
			}
		}
		from.fetched.Store(0)
		for _, blob := range blobs {
			fetch(t, again, from, blob)
		}
		return from.fetched.Load() == 0 // otherwise, the disk was too small for all blobs
	})
}
