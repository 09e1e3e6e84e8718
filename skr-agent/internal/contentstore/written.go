package contentstore

import "sync"

// versions contains the resource version of each Secret that this process wrote and did not delete, by name.
type versions struct {
	mu       sync.Mutex // guards versions
	versions map[string]string
}

func (w *versions) add(name, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[string]string{}
	}
	w.versions[name] = version
}

func (w *versions) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
}

// Wrote reports whether this process wrote this resource version of a Secret. Put and Add verify each blob before they
// write it, so such a Secret is not damaged.
func (s *Store) Wrote(name, version string) bool {
	s.written.mu.Lock()
	defer s.written.mu.Unlock()
	return version != "" && s.written.versions[name] == version
}
