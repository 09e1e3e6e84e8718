package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// volume is a small file system of its own, which can be filled. Nothing is left of it once this process is gone,
// however it went: it is mounted nowhere any more, and reached by a descriptor.
type volume struct {
	folder *os.File
	dir    string
}

var errNoVolume = errors.New("file systems can be mounted by root on Linux only")

// newVolume mounts one of so many bytes. Without the rights to do so it is errNoVolume.
func newVolume(at string, bytes int64) (*volume, error) {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoVolume, err)
	}
	folder, err := os.Open(at)
	if err != nil {
		return nil, errors.Join(err, syscall.Unmount(at, 0))
	}
	if err := syscall.Unmount(at, 2); err != nil { // MNT_DETACH
		return nil, errors.Join(err, folder.Close())
	}
	return &volume{folder: folder, dir: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), folder.Fd())}, nil
}

func (v *volume) filler() string { return filepath.Join(v.dir, "filler") }

// fill takes all space that is left.
func (v *volume) fill() error {
	file, err := os.Create(v.filler())
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for size := len(chunk); size >= 1; {
		if _, err := file.Write(chunk[:size]); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

// drain gives it back.
func (v *volume) drain() error { return os.Remove(v.filler()) }

func (v *volume) close() error { return v.folder.Close() }
