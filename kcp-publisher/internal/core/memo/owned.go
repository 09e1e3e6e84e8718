package memo

import "sync"

// Owned remembers one value for each owner. Owners with the same key share a value. It is safe for concurrent use.
type Owned[O, K comparable, V any] struct {
	mu     sync.Mutex // guards the fields below
	values lru[K, V]
	of     map[O]*entry[K, V]
}

// NewOwned returns an empty Owned. Size returns the bytes that an entry occupies.
func NewOwned[O, K comparable, V any](limit Limit, size func(K, V) int) *Owned[O, K, V] {
	return &Owned[O, K, V]{values: newLRU(limit, size), of: map[O]*entry[K, V]{}}
}

// Of returns the value that an owner holds. It is not found if the owner holds none or the limit dropped it.
func (m *Owned[O, K, V]) Of(owner O) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.of[owner]
	if e == nil || e.place == nil {
		return value, false
	}
	m.values.recent.MoveToFront(e.place)
	return e.value, true
}

// Find returns the value of a key and makes the owner hold it instead of its previous value.
func (m *Owned[O, K, V]) Find(owner O, key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.values.find(key)
	if e == nil {
		return value, false
	}
	m.hold(owner, e)
	return e.value, true
}

// Put sets the value of a key and makes the owner hold it instead of its previous value.
func (m *Owned[O, K, V]) Put(owner O, key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(owner, m.values.put(key, value))
}

// Release drops the value of an owner unless another owner holds it.
func (m *Owned[O, K, V]) Release(owner O) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(m.of[owner])
	delete(m.of, owner)
}

// Held returns the number of owners, of values, and the bytes of the values.
func (m *Owned[O, K, V]) Held() (owners, entries, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries, bytes = m.values.held()
	return len(m.of), entries, bytes
}

func (m *Owned[O, K, V]) hold(owner O, next *entry[K, V]) {
	previous := m.of[owner]
	if previous == next {
		return
	}
	next.owners++
	m.of[owner] = next
	m.release(previous)
}

func (m *Owned[O, K, V]) release(e *entry[K, V]) {
	if e == nil {
		return
	}
	if e.owners--; e.owners == 0 {
		m.values.drop(e)
	}
}
