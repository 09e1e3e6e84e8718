package airgap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestExportDoesNotFollowLinks(t *testing.T) {
	for name, c := range map[string]struct {
		packing Packing
		suffix  string
	}{
		"partial file":                        {Packing{}, ".partial"},
		"partial file of a compressed export": {Packing{Zstd: true}, ".partial"},
		"compressed file":                     {Packing{Zstd: true}, ".packed"},
		"volume":                              {Packing{VolumeBytes: 1 << 20}, ".001.packed"},
	} {
		t.Run(name, func(t *testing.T) {
			disk, key := t.TempDir(), filepath.Join(t.TempDir(), "publisher.key")
			require.NoError(t, os.WriteFile(key, []byte("precious"), 0o600))
			out := filepath.Join(disk, "export.tar")
			require.NoError(t, os.Symlink(key, out+c.suffix))
			layout := Layout{Items: []Item{InMemory(bundle.NewBlob("x", []byte("content")))}}
			names, err := Write(t.Context(), out, layout, c.packing, func(int64) {})
			data, readErr := os.ReadFile(key)
			require.NoError(t, readErr)
			require.Equal(t, "precious", string(data))
			if c.suffix == ".partial" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			info, err := os.Lstat(names[0])
			require.NoError(t, err)
			require.True(t, info.Mode().IsRegular(), info.Mode())
		})
	}
}

func TestExportToAFolderWritesNothing(t *testing.T) {
	disk := t.TempDir()
	layout := Layout{Items: []Item{InMemory(bundle.NewBlob("x", []byte("content")))}}
	_, err := Write(t.Context(), disk, layout, Packing{}, func(int64) {})
	require.ErrorContains(t, err, disk+" is a folder: choose a file, such as "+filepath.Join(disk, "bundles.tar"))
	require.NoFileExists(t, disk+partial)
}
