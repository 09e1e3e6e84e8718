package store

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder syncs the names in a folder to disk, if its file system supports it.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return SyncAndClose(folder)
}

// SyncAndClose is SyncFolder for an open folder.
func SyncAndClose(folder *os.File) error {
	return errors.Join(unlessUnsupported(folder.Sync()), folder.Close())
}

func unlessUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
