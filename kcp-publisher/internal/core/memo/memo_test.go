package memo

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func length(_ string, value string) int { return len(value) }

func text(bytes int) string { return fmt.Sprintf("%0*d", bytes, 0) }

func TestMemoDropsLeastRecentlyUsedEntry(t *testing.T) {
	m := New(Limit{Bytes: 100}, length)
	for i := range 50 {
		m.Put(fmt.Sprint("key-", i), text(30))
		if _, found := m.Get("key-0"); !found {
			t.Fatal("the most recently used value was dropped")
		}
	}
	if entries, bytes := m.Size(); entries != 3 || bytes != 90 {
		t.Errorf("got %d values with %d bytes, want 3 with 90", entries, bytes)
	}
	m.Put("key-0", text(10))
	if _, bytes := m.Size(); bytes != 70 {
		t.Errorf("got %d bytes after a value was replaced with a smaller value, want 70", bytes)
	}
}

func TestMemoKeepsASingleOversizedValue(t *testing.T) {
	m := New(Limit{Bytes: 100}, length)
	m.Put("small", text(10))
	m.Put("large", text(1000))
	if entries, _ := m.Size(); entries != 1 {
		t.Errorf("got %d values, want only the large value", entries)
	}
	if _, found := m.Get("large"); !found {
		t.Error("the large value was dropped")
	}
	m.Put("small", text(1))
	if _, bytes := m.Size(); bytes != 1 {
		t.Errorf("got %d bytes, want 1", bytes)
	}
}

func TestMemoLimitsEntries(t *testing.T) {
	m := New(Limit{Bytes: 1 << 20, Entries: 5}, length)
	for i := range 100 {
		m.Put(fmt.Sprint(i), "value")
	}
	if entries, _ := m.Size(); entries != 5 {
		t.Errorf("got %d values, want 5", entries)
	}
}

func TestSharedCacheKeepsOneValuePerHolder(t *testing.T) {
	m := NewShared(Limit{Bytes: 1 << 30}, length)
	var honest, hostile Holder[string, string]
	m.Put(&honest, "usual", text(10))
	for i := range 1000 {
		m.Put(&hostile, fmt.Sprint("request-", i), text(1000))
	}
	if entries, bytes := m.Size(); entries != 2 || bytes != 1010 {
		t.Errorf("two holders: got %d values with %d bytes, want 2 with 1010", entries, bytes)
	}
	if _, found := m.Share(&hostile, "usual"); !found {
		t.Error("a value of another holder was not found by its key")
	}
	m.Put(&honest, "new", text(20))
	if _, found := m.Get(&hostile); !found {
		t.Error("a value was dropped although a holder references it")
	}
	hostile.Release()
	if entries, bytes := m.Size(); entries != 1 || bytes != 20 {
		t.Errorf("after a release: got %d values with %d bytes, want 1 with 20", entries, bytes)
	}
}

// The test performs random operations on a Shared. It compares the results with a simple model, a map from holders to
// keys.
func TestSharedCacheMatchesModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		limit := Limit{Bytes: 50 + random.IntN(1000), Entries: random.IntN(8)}
		m := NewShared(limit, func(_ int, value string) int { return len(value) })
		var holders [6]Holder[int, string]
		has, sizes := map[int]int{}, map[int]int{}
		for range 200 {
			holder, key := random.IntN(len(holders)), random.IntN(10)
			switch random.IntN(4) {
			case 0:
				sizes[key] = 1 + random.IntN(100)
				m.Put(&holders[holder], key, text(sizes[key]))
				has[holder] = key
			case 1:
				if value, found := m.Share(&holders[holder], key); found {
					has[holder] = key
					if len(value) != sizes[key] {
						t.Fatalf("key %d is %d bytes, want %d", key, len(value), sizes[key])
					}
				}
			case 2:
				holders[holder].Release()
				delete(has, holder)
			default:
				value, found := m.Get(&holders[holder])
				if key, is := has[holder]; found && (!is || len(value) != sizes[key]) {
					t.Fatalf("holder %d: got %d bytes, want the value of key %d", holder, len(value), key)
				}
			}
			held, total := map[int]bool{}, 0
			for _, key := range has {
				held[key] = true
			}
			for key := range held {
				total += sizes[key]
			}
			entries, bytes := m.Size()
			if entries > len(held) || bytes > total || entries > 1 && bytes > limit.Bytes || limit.Entries > 0 &&
				entries > limit.Entries {
				t.Fatalf("got %d values with %d bytes, want at most %d with %d, %+v", entries, bytes, len(held),
					total, limit)
			}
		}
	}
}
