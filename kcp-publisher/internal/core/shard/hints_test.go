package shard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestForwardedNotificationsAreSentOnceAndInOrder(t *testing.T) {
	var w Waiting
	for i := range maxWaiting + 10 {
		w.Add(fmt.Sprint("runtime-", i))
		w.Add("runtime-0")
	}
	var sent []string
	for next := w.Take(maxHintsBytes); len(next) > 0; next = w.Take(maxHintsBytes) {
		if len(next) > maxHints {
			t.Fatalf("a message has %d runtimes, want at most %d", len(next), maxHints)
		}
		sent = append(sent, next...)
	}
	if len(sent) != maxWaiting || sent[1] != "runtime-1" || slices.Index(sent[1:], sent[0]) >= 0 {
		t.Errorf("got %d runtimes, first %v, want %d runtimes in order, each once", len(sent), sent[:3], maxWaiting)
	}
	if w.Add("runtime-0"); len(w.Take(maxHintsBytes)) != 1 {
		t.Error("a second hint about a runtime is lost")
	}
}

func TestOnlyNewAndValidNotificationsAreAccepted(t *testing.T) {
	encode := func(all ...Hints) string {
		data, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	many := Hints{Number: 9}
	for i := range 2 * maxHints {
		many.Runtimes = append(many.Runtimes, fmt.Sprint("runtime-", i))
	}
	for name, c := range map[string]struct {
		text   string
		last   int64
		want   int
		newest int64
	}{
		"new messages":                     {encode(Hints{3, []string{"one"}}, Hints{4, []string{"two"}}), 0, 2, 4},
		"one known message":                {encode(Hints{3, []string{"one"}}, Hints{4, []string{"two"}}), 3, 1, 4},
		"only known messages":              {encode(Hints{3, []string{"one"}}), 3, 0, 3},
		"invalid runtime":                  {encode(Hints{3, []string{"../one", "one", "A b"}}), 0, 1, 3},
		"too many runtimes":                {encode(many), 0, maxHints, 9},
		"message that is not JSON":         {"[", 5, 0, 5},
		"message with the wrong JSON type": {`{"n": 7}`, 5, 0, 5},
		"oversized message":                {strings.Repeat(" ", maxHintsBytes) + encode(Hints{7, []string{"one"}}), 5, 0, 5},
		"no message":                       {"[]", 5, 0, 5},
		"map instead of a list":            {`[{"n": 7, "r": {}}]`, 5, 0, 5},
	} {
		if got, newest := NewHints(c.text, c.last); len(got) != c.want || newest != c.newest {
			t.Errorf("%s: got %d runtimes and number %d, want %d and %d", name, len(got), newest, c.want, c.newest)
		}
	}
}

func TestForwardedNotificationsExpire(t *testing.T) {
	now := time.Unix(100, 0)
	all := []Hints{{Number: now.Add(-4 * time.Second).UnixNano()}, {Number: now.Add(-time.Second).UnixNano()}}
	if kept := KeptHints(all, now.Add(-3*time.Second)); len(kept) != 1 || kept[0].Number != all[1].Number {
		t.Errorf("got messages %v, want only the newer one", kept)
	}
}

func TestNotificationsFromAllReplicasFitInAConfigMap(t *testing.T) {
	const processes, messages = MaxShards, 4
	total := 0
	for range processes * messages {
		var w Waiting
		for i := range maxWaiting {
			w.Add(fmt.Sprintf("%063d", i))
		}
		next := w.Take(MessageBytes(processes, messages))
		if len(next) == 0 {
			t.Fatal("a message has no runtimes")
		}
		data, err := json.Marshal(Hints{Number: time.Now().UnixNano(), Runtimes: next})
		if err != nil {
			t.Fatal(err)
		}
		total += len(data)
	}
	if total > 600<<10 {
		t.Errorf("the messages of %d processes are %d bytes, must leave space for heartbeats in a ConfigMap of 1 MiB",
			processes, total)
	}
}
