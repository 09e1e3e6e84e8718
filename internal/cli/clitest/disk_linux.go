package clitest

import (
	"fmt"
	"syscall"
	"testing"
)

// maxShortages limits the number of free pages or inodes that EachShortage tries. The test fails if a command needs
// more.
const maxShortages = 400

// Disk is a folder on its own in-memory file system.
type Disk struct {
	Dir string
	t   *testing.T
}

// EachShortage calls the function try with disks that have few free pages, starting with none. It increases the number
// of free pages, and then of free inodes, until try returns true. The function prepare first writes files to each disk.
// It can be nil.
//
// EachShortage skips the test if it cannot mount file systems.
func EachShortage(t *testing.T, prepare func(dir string), try func(t *testing.T, disk Disk) (enough bool)) {
	t.Helper()
	for _, kind := range []string{"pages", "files"} {
		for n := 0; ; n += 1 + n/10 {
			if n > maxShortages {
				t.Fatalf("%d free %s are not sufficient, want at most %d", n, kind, maxShortages)
			}
			enough := false
			t.Run(fmt.Sprintf("%d free %s", n, kind), func(t *testing.T) {
				disk := newDisk(t)
				if prepare != nil {
					prepare(disk.Dir)
				}
				disk.setFree(kind, uint64(n))
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
		t.Skipf("needs the permission to mount a file system, for example as root: %v", err)
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

// Grow adds free space to the disk.
func (d Disk) Grow() { d.t.Helper(); d.remount(64<<20, 10_000) }

// setFree sets the number of free pages or inodes, depending on kind.
func (d Disk) setFree(kind string, n uint64) {
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
	d.remount(max(pages, 1)*uint64(now.Bsize), files) // tmpfs treats a size of 0 as unlimited
}

func (d Disk) remount(bytes, files uint64) {
	d.t.Helper()
	if err := syscall.Mount("none", d.Dir, "tmpfs", syscall.MS_REMOUNT,
		fmt.Sprintf("size=%d,nr_inodes=%d", bytes, files)); err != nil {
		d.t.Fatal(err)
	}
}
