package token

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"sigs.k8s.io/yaml"
)

// Generations is a YAML file with the lowest generation of the password that counts, by user. Who is not in it starts
// at 1. The file is read again when it changed, so that a revocation needs no restart; while it cannot be read,
// nobody's generation is known.
type Generations struct {
	path string

	mu     sync.Mutex // guards what follows
	read   fs.FileInfo
	lowest map[string]int
}

// maxGenerationsBytes is a line of 80 bytes for each of 200,000 runtimes.
const maxGenerationsBytes = 16 << 20

// OpenGenerations reads the file; without a path every user's first password counts.
func OpenGenerations(path string) (*Generations, error) {
	g := &Generations{path: path}
	_, err := g.InForce("")
	return g, err
}

// InForce returns the lowest generation that counts for a user.
func (g *Generations) InForce(user string) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.path != "" {
		if err := g.refresh(); err != nil {
			return 0, err
		}
	}
	return max(g.lowest[user], 1), nil
}

func (g *Generations) refresh() error {
	info, err := os.Stat(g.path)
	if err != nil {
		return err
	}
	// A mounted ConfigMap is replaced by renaming, so that it becomes another file.
	if g.read != nil && os.SameFile(g.read, info) && g.read.ModTime().Equal(info.ModTime()) && g.read.Size() == info.Size() {
		return nil
	}
	if info.Size() > maxGenerationsBytes {
		return fmt.Errorf("%s: %d bytes, at most %d", g.path, info.Size(), maxGenerationsBytes)
	}
	data, err := os.ReadFile(g.path)
	if err != nil {
		return err
	}
	lowest := map[string]int{}
	if err := yaml.UnmarshalStrict(data, &lowest); err != nil {
		return fmt.Errorf("%s: want USER: GENERATION in each line: %w", g.path, err)
	}
	for user, generation := range lowest {
		if err := CheckUser(user); err != nil {
			return fmt.Errorf("%s: %w", g.path, err)
		}
		if generation < 1 {
			return fmt.Errorf("%s: %s: generation %d, want at least 1", g.path, user, generation)
		}
	}
	g.read, g.lowest = info, lowest
	return nil
}
