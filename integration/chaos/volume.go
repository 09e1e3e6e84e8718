package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// volume is a small file system that can be filled. Paths to it go through a file descriptor of this process, so the
// kernel removes the volume when this process ends.
type volume struct {
	folder *os.File
	dir    string
}

var errNoVolume = errors.New("mounting a file system needs root on Linux")

// newVolume mounts a volume with a size in bytes. It returns errNoVolume if this process is not permitted to mount.
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
	if err := syscall.Unmount(at, 2); err != nil { // 2 is MNT_DETACH
		return nil, errors.Join(err, folder.Close())
	}
	return &volume{folder: folder, dir: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), folder.Fd())}, nil
}

func (v *volume) filler() string { return filepath.Join(v.dir, "filler") }

// fillVolume writes a file that uses all free space.
func (v *volume) fillVolume() error {
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

func (v *volume) drain() error { return os.Remove(v.filler()) }

func (v *volume) close() error { return v.folder.Close() }
