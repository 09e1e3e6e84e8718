// Package plaintar writes reproducible tar archives, without the owners and times of the machine's files.
package plaintar

import (
	"archive/tar"
	"io"
	"time"
)

// File is a file of the archive.
type File struct {
	Name string
	Data []byte
	Mode int64
}

// Write writes a tar archive of files with a fixed modification time.
func Write(to io.Writer, files []File, at time.Time) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: f.Mode,
			ModTime: at.Truncate(time.Second), Format: tar.FormatUSTAR,
		})
		if err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	return w.Close()
}
