package token

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"sigs.k8s.io/yaml"
)

// Generations is a YAML file with the lowest valid password generation of each user, which is 1 by default. The file is
// read again after a change. While it cannot be read, InForce returns an error.
type Generations struct {
	path string

	mu     sync.Mutex // guards the fields below
	read   fs.FileInfo
	lowest map[string]int
}

// maxGenerationsBytes is enough for 200,000 lines of 80 bytes, one for each runtime.
const maxGenerationsBytes = 16 << 20

// OpenGenerations reads the file. Without a path, every user's first password is valid.
func OpenGenerations(path string) (*Generations, error) {
	g := &Generations{path: path}
	_, err := g.InForce("")
	return g, err
}

// InForce returns a user's lowest valid password generation.
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
	// Kubernetes updates a mounted ConfigMap with a rename, so the path then refers to a different file.
	if g.read != nil && os.SameFile(g.read, info) && g.read.ModTime().Equal(info.ModTime()) &&
		g.read.Size() == info.Size() {
		return nil
	}
	if info.Size() > maxGenerationsBytes {
		return fmt.Errorf("%s: %d bytes, must be at most %d", g.path, info.Size(), maxGenerationsBytes)
	}
	data, err := os.ReadFile(g.path)
	if err != nil {
		return err
	}
	lowest := map[string]int{}
	if err := yaml.UnmarshalStrict(data, &lowest); err != nil {
		return fmt.Errorf("%s: each line must be USER: GENERATION: %w", g.path, err)
	}
	for user, generation := range lowest {
		if err := CheckUser(user); err != nil {
			return fmt.Errorf("%s: %w", g.path, err)
		}
		if generation < 1 {
			return fmt.Errorf("%s: %s: generation is %d, must be at least 1", g.path, user, generation)
		}
	}
	g.read, g.lowest = info, lowest
	return nil
}
