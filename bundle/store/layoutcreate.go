package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// checkNewLayout returns an error if a folder is not an OCI layout and contains other files. Users copy layouts to web
// servers and disks, so a layout must not share a folder with private keys.
func checkNewLayout(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	foreign := ""
	for _, entry := range entries {
		switch name := entry.Name(); {
		case slices.Contains([]string{ocispec.ImageLayoutFile, ocispec.ImageIndexFile}, name):
			return nil
		case slices.Contains([]string{ocispec.ImageBlobsDir, "ingest", "lost+found"}, name), strings.HasPrefix(name, "."):
		case foreign == "":
			foreign = name
		}
	}
	if foreign != "" {
		return fmt.Errorf("the folder is not an OCI layout and contains %s: choose an empty or new folder",
			filepath.Join(dir, foreign))
	}
	return nil
}
