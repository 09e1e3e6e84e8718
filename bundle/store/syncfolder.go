package store

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder writes a folder's entries to disk (fsync). It does nothing if the file system does not support this.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return SyncAndClose(folder)
}

// SyncAndClose is like SyncFolder for an open folder, and also closes the folder.
func SyncAndClose(folder *os.File) error {
	return errors.Join(unlessUnsupported(folder.Sync()), folder.Close())
}

func unlessUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
