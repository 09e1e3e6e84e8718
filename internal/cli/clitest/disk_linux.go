package clitest

import (
	"fmt"
	"syscall"
	"testing"
)

// maxShortages bounds how much room a command may need, in pages and in files.
const maxShortages = 400

// Disk is a folder on a file system of its own, in memory.
type Disk struct {
	Dir string
	t   *testing.T
}

// EachShortage calls try with a disk that lacks room: with few free pages, more and more of them, and then with few
// files that may be made. It goes on with the other kind once try reports that the room was enough. prepare fills the
// disk before; it may be nil. The test is skipped where nothing may be mounted.
func EachShortage(t *testing.T, prepare func(dir string), try func(t *testing.T, disk Disk) (enough bool)) {
	t.Helper()
	for _, kind := range []string{"pages", "files"} {
		for n := 0; ; n += 1 + n/10 {
			if n > maxShortages {
				t.Fatalf("%d %s are not enough", n, kind)
			}
			enough := false
			t.Run(fmt.Sprintf("%d free %s", n, kind), func(t *testing.T) {
				disk := newDisk(t)
				if prepare != nil {
					prepare(disk.Dir)
				}
				disk.leave(kind, uint64(n))
				enough = try(t, disk)
			})
			if t.Failed() || t.Skipped() || enough {
				break
			}
		}
	}
}

func newDisk(t *testing.T) Disk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs the right to mount a file system, as root has it: mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := Disk{Dir: dir, t: t}
	d.Grow()
	return d
}

// Grow makes room.
func (d Disk) Grow() { d.t.Helper(); d.remount(64<<20, 10_000) }

// leave leaves so much free of one kind.
func (d Disk) leave(kind string, n uint64) {
	d.t.Helper()
	var now syscall.Statfs_t
	if err := syscall.Statfs(d.Dir, &now); err != nil {
		d.t.Fatal(err)
	}
	pages, files := (now.Blocks-now.Bfree)+n, (now.Files-now.Ffree)+n
	if kind == "pages" {
		files = 10_000
	} else {
		pages = 10_000
	}
	d.remount(max(pages, 1)*uint64(now.Bsize), files) // a size of 0 sets no limit
}

func (d Disk) remount(bytes, files uint64) {
	d.t.Helper()
	if err := syscall.Mount("none", d.Dir, "tmpfs", syscall.MS_REMOUNT,
		fmt.Sprintf("size=%d,nr_inodes=%d", bytes, files)); err != nil {
		d.t.Fatal(err)
	}
}
