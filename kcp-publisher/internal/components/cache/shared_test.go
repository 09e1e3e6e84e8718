package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestConcurrentReadsShareOneFetch(t *testing.T) {
	for _, size := range []int{3000, smallBytes + 1} {
		from, dir := newSource(), t.TempDir()
		desc := from.add(bytes.Repeat([]byte("x"), size))
		c := open(t, dir, 64<<20)
		synctest.Test(t, func(t *testing.T) {
			from.wait = make(chan struct{})
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { fetch(t, c, from, desc) })
			}
			synctest.Wait()
			close(from.wait)
			all.Wait()
		})
		if got := from.fetched.Load(); got != 1 {
			t.Errorf("got %d fetches, want 1", got)
		}
	}
}

func TestCanceledReadDoesNotCancelOthers(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	desc := from.add([]byte("content"))
	c := open(t, dir, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		from.wait = make(chan struct{})
		ctx, giveUp := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := c.Wrap(from).Fetch(ctx, desc)
			first <- err
		}()
		synctest.Wait()
		go func() {
			defer close(second)
			fetch(t, c, from, desc)
		}()
		synctest.Wait()
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled read: got error %v, want context.Canceled", err)
		}
		synctest.Wait()
		close(from.wait)
		<-second
	})
}

func TestConcurrentReadsShareASourceFailure(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	desc := from.add([]byte("content"))
	from.down = errors.New("the registry is down")
	c := open(t, dir, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		from.wait = make(chan struct{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := c.Wrap(from).Fetch(t.Context(), desc); !errors.Is(err, from.down) {
					t.Errorf("concurrent read: got error %v, want the error of the source", err)
				}
			})
		}
		synctest.Wait()
		close(from.wait)
		all.Wait()
	})
	if from.fetched.Load() != 1 {
		t.Errorf("got %d fetches, want 1", from.fetched.Load())
	}
}

func TestConcurrentReadersInTwoProcessesGetCorrectContent(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	caches := []*Cache{open(t, dir, 40_000), open(t, dir, 40_000)}
	var descs []ocispec.Descriptor
	for i := range 60 {
		descs = append(descs, from.add(bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 200 {
				c, desc := caches[worker%2], descs[(i*7+worker*13)%len(descs)]
				if i%50 == 0 {
					_ = os.Truncate(blobPath(dir, desc.Digest), 10)
				}
				fetch(t, c, from, desc)
				if err := c.Pin(fmt.Sprint("module:", i), descs[i%len(descs)].Digest); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	newest := descs[:10]
	for _, desc := range newest {
		fetch(t, caches[0], from, desc)
	}
	from.fetched.Store(0)
	for _, desc := range newest {
		fetch(t, caches[1], from, desc)
	}
	if got := from.fetched.Load(); got != 0 {
		t.Errorf("got %d fetches, want the content that the other process read last from disk", got)
	}
}

func TestPinnedDigestNeverChanges(t *testing.T) {
	dir, first, second := t.TempDir(), digest.FromString("first"), digest.SHA512.FromString("second")
	c, other := open(t, dir, 1000), open(t, dir, 1000)
	if _, ok := c.Pinned("a:1"); ok {
		t.Error("the name is pinned before the first Pin")
	}
	for _, name := range []string{"a:1", "../../a:1", strings.Repeat("a", maxNameBytes), "\x00"} {
		if err := c.Pin(name, first); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Cache{c, other, open(t, dir, 1000)} {
			if err := c.Pin(name, first); err != nil {
				t.Error(err)
			}
			if d, ok := c.Pinned(name); !ok || d != first {
				t.Errorf("%q: got pinned digest %s and found %t, want %s", name, d, ok, first)
			}
			if err := c.Pin(name, second); err == nil ||
				!strings.Contains(err.Error(), "was "+first.String()+", is "+second.String()) {
				t.Errorf("%q: pin another digest: got error %v, want a refusal", name, err)
			}
		}
	}
	if err := other.Pin("b:1", second); err != nil {
		t.Fatal(err)
	}
	if err := c.Pin("b:1", first); err == nil {
		t.Error("the pin of another process is ignored")
	}
	for name, d := range map[string]digest.Digest{"": first, strings.Repeat("a", maxNameBytes+1): first, "c:1": "",
		"d:1": "sha256:../x", "e:1": "md5:00"} {
		if err := c.Pin(name, d); err == nil {
			t.Errorf("invalid pin of %.20q to %q is accepted", name, d)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, pinsDir))
	if err != nil || len(files) != 5 {
		t.Errorf("got %d pins and error %v, want 5", len(files), err)
	}
}

func TestConcurrentPinsStoreOneDigest(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	var mu sync.Mutex
	pinned := map[digest.Digest]int{}
	for i := range 16 {
		c := open(t, dir, 1000)
		all.Go(func() {
			d := digest.FromString(fmt.Sprint(i))
			err := c.Pin("a:1", d)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				pinned[d]++
			}
		})
	}
	all.Wait()
	d, ok := open(t, dir, 1000).Pinned("a:1")
	if len(pinned) != 1 || !ok || pinned[d] != 1 {
		t.Errorf("got pinned digests %v and final digest %s", pinned, d)
	}
}

func TestDamagedPinFileIsReported(t *testing.T) {
	for name, data := range map[string]string{
		"empty file":          "",
		"truncated file":      `{"name":"a:1","dig`,
		"invalid digest":      `{"name":"a:1","digest":"sha256:00"}`,
		"pin of another name": `{"name":"b:1","digest":"` + digest.FromString("x").String() + `"}`,
		"duplicate key": `{"name":"a:1","digest":"` + digest.FromString("x").String() + `","digest":"` +
			digest.FromString("y").String() + `"}`,
		"file larger than the limit": `{"name":"a:1"` + strings.Repeat(" ", maxPinBytes) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			early := open(t, dir, 1000)
			if err := open(t, dir, 1000).Pin("a:1", digest.FromString("x")); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, pinFile("a:1"))
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, 1000); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) ||
				!strings.Contains(err.Error(), "restore the file, or remove it") {
				t.Errorf("Open: got error %v, want one with the file and the fix", err)
			}
			if d, ok := early.Pinned("a:1"); !ok || d != "" {
				t.Errorf("Pinned: got digest %q and found %t, want an empty digest", d, ok)
			}
			if err := early.Pin("a:1", digest.FromString("x")); err == nil ||
				!strings.Contains(err.Error(), filepath.Base(file)) {
				t.Errorf("Pin: got error %v, want one with the file", err)
			}
		})
	}
}
