package memo

import "sync"

// Shared caches at most one value for each Holder. Holders with the same key share a value. Shared is safe for
// concurrent use, but a Holder is not.
type Shared[K comparable, V any] struct {
	mu     sync.Mutex
	values lru[K, V]
}

// Holder references at most one value of a Shared. Callers must release a Holder before they discard it.
type Holder[K comparable, V any] struct{ entry *entry[K, V] }

// NewShared returns an empty Shared. size returns the size of an entry in bytes.
func NewShared[K comparable, V any](limit Limit, size func(K, V) int) *Shared[K, V] {
	return &Shared[K, V]{values: newLRU(limit, size)}
}

// Get returns the value that a holder references. It returns false if the holder does not reference a value, or if the
// cache has dropped it.
func (m *Shared[K, V]) Get(holder *Holder[K, V]) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := holder.entry
	if e == nil || e.isDropped() {
		return value, false
	}
	m.values.moveToFront(e)
	return e.value, true
}

// Share returns the value for a key and makes the holder reference it instead of its previous value. It returns false
// if the cache does not contain the key.
func (m *Shared[K, V]) Share(holder *Holder[K, V], key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.values.get(key)
	if e == nil {
		return value, false
	}
	m.setEntry(holder, e)
	return e.value, true
}

// Put adds the value for a key to the cache and makes the holder reference it instead of its previous value.
func (m *Shared[K, V]) Put(holder *Holder[K, V], key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setEntry(holder, m.values.put(key, value))
}

// Release removes the holder's reference to its value. The cache drops the value if no other holder references it.
func (m *Shared[K, V]) Release(holder *Holder[K, V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setEntry(holder, nil)
}

// Size returns the number of values and their total size in bytes.
func (m *Shared[K, V]) Size() (entries, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values.usage()
}

func (m *Shared[K, V]) setEntry(holder *Holder[K, V], next *entry[K, V]) {
	previous := holder.entry
	if previous == next {
		return
	}
	if holder.entry = next; next != nil {
		next.holders++
	}
	if previous == nil {
		return
	}
	if previous.holders--; previous.holders == 0 {
		m.values.drop(previous)
	}
}
