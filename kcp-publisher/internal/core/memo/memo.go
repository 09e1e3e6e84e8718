// Package memo caches computed values within a memory limit, and drops the least recently used values first. Each cache
// has a function that returns the size of an entry in bytes.
//
// The type Memo caches values by key. The type Shared caches one value for each Holder, and drops a value as soon as no
// Holder references it.
package memo

import (
	"maps"
	"sync"

	"github.com/opencontainers/go-digest"
)

// EntryBytes is the approximate memory overhead of an entry in bytes. The size function of a cache adds it to the size
// of the value.
const EntryBytes = 256

// Limit is the maximum size of a cache. A cache keeps its most recent value even if this value alone exceeds the limit.
type Limit struct {
	Bytes int
	// Entries limits the number of values. Zero means unlimited.
	Entries int
}

// Memo caches values by key. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu     sync.Mutex
	values lru[K, V]
}

// New returns an empty Memo. size returns the size of an entry in bytes.
func New[K comparable, V any](limit Limit, size func(K, V) int) *Memo[K, V] {
	return &Memo[K, V]{values: newLRU(limit, size)}
}

// NewDigests returns an empty Memo that maps names to digests. bytes is its maximum size.
func NewDigests(bytes int) *Memo[string, digest.Digest] {
	return New(Limit{Bytes: bytes}, func(name string, d digest.Digest) int { return len(name) + len(d) + EntryBytes })
}

// Get returns the value of a key.
func (m *Memo[K, V]) Get(key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.values.get(key); e != nil {
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

// Prune drops outdated values.
func (m *Memo[K, V]) Prune(outdated func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.values.byKey)
	for _, e := range m.values.byKey {
		if outdated(e.value) {
			m.values.drop(e)
		}
	}
	if len(m.values.byKey) < before/2 { // copy the map, because its memory does not shrink
		kept := make(map[K]*entry[K, V], len(m.values.byKey))
		maps.Copy(kept, m.values.byKey)
		m.values.byKey = kept
	}
}

// Size returns the number of values and their total size in bytes.
func (m *Memo[K, V]) Size() (entries, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values.usage()
}

// lru drops the least recently used entries first. The entries form a ring that is sorted by the time of their last
// use.
type lru[K comparable, V any] struct {
	limit Limit
	size  func(K, V) int
	bytes int
	byKey map[K]*entry[K, V]
	// ring is a sentinel entry. Its field next is the most recently used entry, and its field previous is the least
	// recently used entry.
	ring *entry[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
	// holders is the number of Holders that reference the entry. Only Shared uses it.
	holders int
	// next and previous are nil after the cache has dropped the entry. A Holder can still reference a dropped entry.
	next, previous *entry[K, V]
}

func newLRU[K comparable, V any](limit Limit, size func(K, V) int) lru[K, V] {
	ring := &entry[K, V]{}
	ring.next, ring.previous = ring, ring
	return lru[K, V]{limit: limit, size: size, byKey: map[K]*entry[K, V]{}, ring: ring}
}

func (e *entry[K, V]) isDropped() bool { return e.next == nil }

func (e *entry[K, V]) unlink() {
	e.previous.next, e.next.previous = e.next, e.previous
	e.next, e.previous = nil, nil
}

func (l *lru[K, V]) moveToFront(e *entry[K, V]) {
	if e.next != nil {
		e.unlink()
	}
	e.previous, e.next = l.ring, l.ring.next
	e.previous.next, e.next.previous = e, e
}

func (l *lru[K, V]) get(key K) *entry[K, V] {
	e := l.byKey[key]
	if e != nil {
		l.moveToFront(e)
	}
	return e
}

func (l *lru[K, V]) put(key K, value V) *entry[K, V] {
	e := l.get(key)
	if e == nil {
		e = &entry[K, V]{key: key}
		l.byKey[key] = e
		l.moveToFront(e)
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
	if e.isDropped() {
		return
	}
	e.unlink()
	delete(l.byKey, e.key)
	l.bytes -= e.bytes
	var none V
	e.value, e.bytes = none, 0
}

func (l *lru[K, V]) usage() (entries, bytes int) { return len(l.byKey), l.bytes }

// Shared caches at most one value for each Holder. Holders with the same key share a value. Shared is safe for
// concurrent use, but a Holder is not.
type Shared[K comparable, V any] struct {
	mu     sync.Mutex
	values lru[K, V]
}

// Holder references at most one value of a Shared. Callers must release a Holder before they discard it.
type Holder[K comparable, V any] struct {
	entry *entry[K, V]
	owner *Shared[K, V] // set together with entry
}

// Release removes the holder's reference to its value. The cache drops the value if no other holder references it.
func (h *Holder[K, V]) Release() {
	if h.owner == nil {
		return // the holder has never referenced a value
	}
	h.owner.mu.Lock()
	defer h.owner.mu.Unlock()
	h.owner.setEntry(h, nil)
}

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
	if holder.entry, holder.owner = next, m; next != nil {
		next.holders++
	}
	if previous == nil {
		return
	}
	if previous.holders--; previous.holders == 0 {
		m.values.drop(previous)
	}
}
