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

func TestOwnerHoldsOneValue(t *testing.T) {
	m := NewOwned[string](Limit{Bytes: 1 << 30}, length)
	m.Put("honest", "usual", text(10))
	for i := range 1000 {
		m.Put("hostile", fmt.Sprint("request-", i), text(1000))
	}
	if owners, entries, bytes := m.Held(); owners != 2 || entries != 2 || bytes != 1010 {
		t.Errorf("%d owners hold %d values of %d bytes, want 2 of 1010", owners, entries, bytes)
	}
	if _, found := m.Find("hostile", "usual"); !found {
		t.Error("the honest owner's value is not shared")
	}
	m.Put("honest", "new", text(20))
	if _, found := m.Of("hostile"); !found {
		t.Error("a value was dropped that an owner still holds")
	}
	m.Release("hostile")
	if owners, entries, bytes := m.Held(); owners != 1 || entries != 1 || bytes != 20 {
		t.Errorf("%d owners hold %d values of %d bytes after a release, want 1 of 20", owners, entries, bytes)
	}
}

// TestOwnedMatchesModel compares random histories with a map from owner to key.
func TestOwnedMatchesModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		limit := Limit{Bytes: 50 + random.IntN(1000), Entries: random.IntN(8)}
		m, holds, sizes := NewOwned[int](limit, func(_ int, value string) int { return len(value) }), map[int]int{}, map[int]int{}
		for range 200 {
			owner, key := random.IntN(6), random.IntN(10)
			switch random.IntN(4) {
			case 0:
				sizes[key] = 1 + random.IntN(100)
				m.Put(owner, key, text(sizes[key]))
				holds[owner] = key
			case 1:
				if value, found := m.Find(owner, key); found {
					holds[owner] = key
					if len(value) != sizes[key] {
						t.Fatalf("key %d has %d bytes, want %d", key, len(value), sizes[key])
					}
				}
			case 2:
				m.Release(owner)
				delete(holds, owner)
			default:
				value, found := m.Of(owner)
				if key, is := holds[owner]; found && (!is || len(value) != sizes[key]) {
					t.Fatalf("owner %d holds %d bytes, want key %d", owner, len(value), key)
				}
			}
			held, total := map[int]bool{}, 0
			for _, key := range holds {
				held[key] = true
			}
			for key := range held {
				total += sizes[key]
			}
			owners, entries, bytes := m.Held()
			if owners != len(holds) || entries > len(held) || bytes > total || entries > 1 && bytes > limit.Bytes || limit.Entries > 0 && entries > limit.Entries {
				t.Fatalf("%d owners hold %d values of %d bytes, want at most %d owners, %d values, %d bytes, %+v", owners, entries, bytes, len(holds), len(held), total, limit)
			}
		}
	}
}
