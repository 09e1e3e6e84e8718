package memo

import "sync"

// Shared remembers one value for each holder. Holders with the same key share a value. It is safe for concurrent use;
// each holder belongs to one goroutine at a time.
type Shared[K comparable, V any] struct {
	mu     sync.Mutex // guards values
	values lru[K, V]
}

// Holder holds at most one value of a Shared. The zero Holder holds none. Release it before it is dropped.
type Holder[K comparable, V any] struct{ entry *entry[K, V] }

// NewShared returns an empty Shared. Size returns the bytes that an entry occupies.
func NewShared[K comparable, V any](limit Limit, size func(K, V) int) *Shared[K, V] {
	return &Shared[K, V]{values: newLRU(limit, size)}
}

// Of returns the value of a holder. It is not found if the holder has none or the limit dropped it.
func (m *Shared[K, V]) Of(holder *Holder[K, V]) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := holder.entry
	if e == nil || e.dropped() {
		return value, false
	}
	m.values.front(e)
	return e.value, true
}

// Find returns the value of a key. If there is one, it replaces the holder's previous value.
func (m *Shared[K, V]) Find(holder *Holder[K, V], key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.values.find(key)
	if e == nil {
		return value, false
	}
	m.hold(holder, e)
	return e.value, true
}

// Put sets the value of a key, which replaces the holder's previous value.
func (m *Shared[K, V]) Put(holder *Holder[K, V], key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(holder, m.values.put(key, value))
}

// Release drops the value of a holder unless another one holds it.
func (m *Shared[K, V]) Release(holder *Holder[K, V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(holder, nil)
}

// Held returns the number of values and their bytes.
func (m *Shared[K, V]) Held() (entries, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values.held()
}

func (m *Shared[K, V]) hold(holder *Holder[K, V], next *entry[K, V]) {
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
