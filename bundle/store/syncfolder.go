package store

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder makes the names in a folder last, where its file system can. Others, such as 9p and vboxsf, refuse, and
// what was written there is as whole as they make it.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return SyncAndClose(folder)
}

// SyncAndClose is SyncFolder for a folder that is open.
func SyncAndClose(folder *os.File) error {
	return errors.Join(unlessUnsupported(folder.Sync()), folder.Close())
}

func unlessUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
