// Package memo remembers computed values within a limit of bytes.
//
// Runtimes and module teams choose the size of their data, so a limit on the number of entries does not limit
// memory. Each memo therefore has a function that returns the size of an entry, and drops the least recently used
// entries first. hashicorp/golang-lru bounds entries only.
//
// Memo is for values that are shared by content, such as the differences of two states. Shared is for values that one
// party asks for: each holder has one value, its next value replaces the previous one, and a value without a holder is
// dropped.
package memo

import "sync"

// EntryBytes is about the size of an entry in the memo itself, with a digest as its key. Size functions add it, so that
// the number of small values is limited as well.
const EntryBytes = 256

// Limit bounds a memo. The most recent value always stays, even if it is larger than the limit.
type Limit struct {
	Bytes int
	// Entries bounds the number of values; 0 is unlimited.
	Entries int
}

// Memo remembers values by key. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu     sync.Mutex // guards values
	values lru[K, V]
}

// New returns an empty Memo. Size returns the bytes that an entry occupies.
func New[K comparable, V any](limit Limit, size func(K, V) int) *Memo[K, V] {
	return &Memo[K, V]{values: newLRU(limit, size)}
}

// Find returns the value of a key.
func (m *Memo[K, V]) Find(key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.values.find(key); e != nil {
		return e.value, true
	}
	return value, false
}

// Put sets the value of a key.
func (m *Memo[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values.put(key, value)
}

// Prune drops the values that are outdated.
func (m *Memo[K, V]) Prune(outdated func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.values.byKey {
		if outdated(e.value) {
			m.values.drop(e)
		}
	}
}

// Held returns the number of values and their bytes.
func (m *Memo[K, V]) Held() (entries, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values.held()
}

// lru holds entries within a limit, in a ring that begins with the most recently used one.
type lru[K comparable, V any] struct {
	limit Limit
	size  func(K, V) int
	bytes int
	byKey map[K]*entry[K, V]
	ring  *entry[K, V] // its next is the most recently used entry, its previous the least recently used one
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
	// holders counts the holders of an entry of a Shared.
	holders int
	// next and previous are nil after the entry was dropped. Its value is zero then, because holders may still refer to
	// it.
	next, previous *entry[K, V]
}

func newLRU[K comparable, V any](limit Limit, size func(K, V) int) lru[K, V] {
	ring := &entry[K, V]{}
	ring.next, ring.previous = ring, ring
	return lru[K, V]{limit: limit, size: size, byKey: map[K]*entry[K, V]{}, ring: ring}
}

func (e *entry[K, V]) dropped() bool { return e.next == nil }

func (e *entry[K, V]) unlink() {
	e.previous.next, e.next.previous = e.next, e.previous
	e.next, e.previous = nil, nil
}

// front makes an entry the most recently used one.
func (l *lru[K, V]) front(e *entry[K, V]) {
	if e.next != nil {
		e.unlink()
	}
	e.previous, e.next = l.ring, l.ring.next
	e.previous.next, e.next.previous = e, e
}

func (l *lru[K, V]) find(key K) *entry[K, V] {
	e := l.byKey[key]
	if e != nil {
		l.front(e)
	}
	return e
}

func (l *lru[K, V]) put(key K, value V) *entry[K, V] {
	e := l.find(key)
	if e == nil {
		e = &entry[K, V]{key: key}
		l.byKey[key] = e
		l.front(e)
	}
	size := l.size(key, value)
	l.bytes += size - e.bytes
	e.value, e.bytes = value, size
	for len(l.byKey) > 1 && (l.bytes > l.limit.Bytes || l.limit.Entries > 0 && len(l.byKey) > l.limit.Entries) {
		l.drop(l.ring.previous)
	}
	return e
}

func (l *lru[K, V]) drop(e *entry[K, V]) {
	if e.dropped() {
		return
	}
	e.unlink()
	delete(l.byKey, e.key)
	l.bytes -= e.bytes
	var none V
	e.value, e.bytes = none, 0
}

func (l *lru[K, V]) held() (entries, bytes int) { return len(l.byKey), l.bytes }
