package export

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
)

// UsedCache stores rendered modules' images in a folder, so that the next command does not render the modules again.
// The zero value does not store entries. If an entry cannot be read or written, the module is rendered again.
type UsedCache struct {
	Dir string
	// Renderer identifies the program that renders modules. Another program's entries are not used.
	Renderer string
}

// maxUsedAge is the age after which Prune removes an unused entry.
const maxUsedAge = 30 * 24 * time.Hour

const maxUsedBytes = 1 << 20

func (c UsedCache) path(key digest.Digest) string {
	return filepath.Join(c.Dir, digest.FromString(c.Renderer+"\n"+key.String()).Encoded()+".json")
}

// get returns an entry's images, and false if the entry does not exist or is damaged.
func (c UsedCache) get(key digest.Digest) ([]string, bool) {
	if c.Dir == "" {
		return nil, false
	}
	path := c.path(key)
	if info, err := os.Stat(path); err != nil || info.Size() > maxUsedBytes {
		return nil, false
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var used []string
	if json.Unmarshal(data, &used) != nil || len(used) > maxUsedImages {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // Prune removes entries by this time
	return used, true
}

// put replaces an entry atomically.
func (c UsedCache) put(key digest.Digest, used []string) {
	if c.Dir == "" || os.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	data, err := json.Marshal(used)
	if err != nil {
		return
	}
	file, err := os.CreateTemp(c.Dir, ".new-*")
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), c.path(key))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
}

// Prune removes entries that no command used for 30 days.
func (c UsedCache) Prune(now time.Time) {
	if c.Dir == "" {
		return
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > maxUsedAge {
			_ = os.Remove(filepath.Join(c.Dir, e.Name()))
		}
	}
}
