package record

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Inventories contains the last inventory that the agent wrote for each Manifest. Without it, a client with write
// access to a Manifest's status could remove entries, and the agent would not delete these objects. It is safe for
// concurrent use. A nil Inventories is empty.
//
// Since the last write, the agent can have deleted objects in an inventory or given them to another module. Such
// outdated entries are safe, because the agent deletes only objects with their module's annotations.
type Inventories struct {
	mu     sync.Mutex // guards byName
	byName map[types.NamespacedName][]v1beta2.Resource
}

// NewInventories returns empty Inventories.
func NewInventories() *Inventories {
	return &Inventories{byName: map[types.NamespacedName][]v1beta2.Resource{}}
}

// Restore adds an inventory that an earlier agent process knew. It does not replace a newer inventory.
func (s *Inventories) Restore(m *v1beta2.Manifest, inventory []v1beta2.Resource) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byName[keyOf(m)]; !known {
		s.byName[keyOf(m)] = inventory
	}
}

// Record replaces a Manifest's inventory with the inventory in its status.
func (s *Inventories) Record(m *v1beta2.Manifest) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[keyOf(m)] = m.Status.Synced
}

// Forget drops a removed Manifest's inventory.
func (s *Inventories) Forget(name types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}

// Missing returns the known objects that the inventory in a Manifest's status does not contain, because another client
// removed them. The version of an object does not matter.
func (s *Inventories) Missing(m *v1beta2.Manifest) (missing []v1beta2.Resource) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := map[v1beta2.Resource]bool{}
	for _, r := range m.Status.Synced {
		r.Version = ""
		listed[r] = true
	}
	for _, r := range s.byName[keyOf(m)] {
		key := r
		key.Version = ""
		if !listed[key] {
			missing = append(missing, r)
		}
	}
	return missing
}
