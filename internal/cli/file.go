package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically. It follows symbolic links and preserves an existing file's mode.
//
// It writes directly to a path that is not a regular file, such as /dev/stdout.
func WriteFile(path string, data []byte) error {
	const usual = 0o644
	info, err := os.Stat(path) // unlike Lstat, follows symbolic links
	there := err == nil
	switch {
	case there && !info.Mode().IsRegular():
		return os.WriteFile(path, data, usual)
	case there && info.Mode().Perm()&0o200 == 0:
		return &fs.PathError{Op: "write", Path: path, Err: fs.ErrPermission}
	case there:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := createTemporary(path, usual)
	if err != nil {
		return err
	}
	if there {
		err = file.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = file.Write(data)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// createTemporary creates a temporary file next to path. Unlike os.CreateTemp, it respects the umask.
func createTemporary(path string, mode fs.FileMode) (*os.File, error) {
	name := fmt.Sprintf(".%s-%.10s", filepath.Base(path), rand.Text())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}
