package memo

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func length(_ string, value string) int { return len(value) }

func text(bytes int) string { return fmt.Sprintf("%0*d", bytes, 0) }

func TestMemoDropsLeastRecentlyUsed(t *testing.T) {
	m := New(Limit{Bytes: 100}, length)
	for i := range 50 {
		m.Put(fmt.Sprint("key-", i), text(30))
		if _, found := m.Find("key-0"); !found {
			t.Fatal("the most recently used value was dropped")
		}
	}
	if entries, bytes := m.Held(); entries != 3 || bytes != 90 {
		t.Errorf("holds %d values of %d bytes, want 3 of 90", entries, bytes)
	}
	m.Put("key-0", text(10))
	if _, bytes := m.Held(); bytes != 70 {
		t.Errorf("holds %d bytes after a value was replaced with a smaller one, want 70", bytes)
	}
}

func TestMemoKeepsLargeValueAlone(t *testing.T) {
	m := New(Limit{Bytes: 100}, length)
	m.Put("small", text(10))
	m.Put("large", text(1000))
	if entries, _ := m.Held(); entries != 1 {
		t.Errorf("holds %d values, want the large one only", entries)
	}
	if _, found := m.Find("large"); !found {
		t.Error("the large value was dropped")
	}
	m.Put("small", text(1))
	if _, bytes := m.Held(); bytes != 1 {
		t.Errorf("holds %d bytes, want 1", bytes)
	}
}

func TestMemoLimitsEntries(t *testing.T) {
	m := New(Limit{Bytes: 1 << 20, Entries: 5}, length)
	for i := range 100 {
		m.Put(fmt.Sprint(i), "value")
	}
	if entries, _ := m.Held(); entries != 5 {
		t.Errorf("holds %d values, want 5", entries)
	}
}

func TestHolderHasOneValue(t *testing.T) {
	m := NewShared(Limit{Bytes: 1 << 30}, length)
	var honest, hostile Holder[string, string]
	m.Put(&honest, "usual", text(10))
	for i := range 1000 {
		m.Put(&hostile, fmt.Sprint("request-", i), text(1000))
	}
	if entries, bytes := m.Held(); entries != 2 || bytes != 1010 {
		t.Errorf("two holders have %d values of %d bytes, want 2 of 1010", entries, bytes)
	}
	if _, found := m.Find(&hostile, "usual"); !found {
		t.Error("the honest holder's value is not shared")
	}
	m.Put(&honest, "new", text(20))
	if _, found := m.Of(&hostile); !found {
		t.Error("a value was dropped that a holder still has")
	}
	m.Release(&hostile)
	if entries, bytes := m.Held(); entries != 1 || bytes != 20 {
		t.Errorf("%d values of %d bytes remain after a release, want 1 of 20", entries, bytes)
	}
}

// TestSharedMatchesModel compares random histories with a map from holder to key.
func TestSharedMatchesModel(t *testing.T) {
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
				if value, found := m.Find(&holders[holder], key); found {
					has[holder] = key
					if len(value) != sizes[key] {
						t.Fatalf("key %d has %d bytes, want %d", key, len(value), sizes[key])
					}
				}
			case 2:
				m.Release(&holders[holder])
				delete(has, holder)
			default:
				value, found := m.Of(&holders[holder])
				if key, is := has[holder]; found && (!is || len(value) != sizes[key]) {
					t.Fatalf("holder %d has %d bytes, want key %d", holder, len(value), key)
				}
			}
			held, total := map[int]bool{}, 0
			for _, key := range has {
				held[key] = true
			}
			for key := range held {
				total += sizes[key]
			}
			entries, bytes := m.Held()
			if entries > len(held) || bytes > total || entries > 1 && bytes > limit.Bytes || limit.Entries > 0 &&
				entries > limit.Entries {
				t.Fatalf("%d values of %d bytes, want at most %d values, %d bytes, %+v", entries, bytes, len(held),
					total, limit)
			}
		}
	}
}
