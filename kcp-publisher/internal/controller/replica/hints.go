package replica

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// A hint is a runtime ID. It means that this process has received a notification about a new report from the runtime.
// Another process may be responsible for the runtime, so each process writes its hints to the ConfigMap, at most once
// per hintsInterval. The process removes them after hintsKept, when every other process has read them. If a hint is
// lost, the responsible process reads the report at its next poll.
const hintsInterval, hintsKept = time.Second, 3 * time.Second

// maxKeptHints is the maximum number of messages from one process in the ConfigMap.
const maxKeptHints = int(hintsKept/hintsInterval) + 1

// outbox contains the hints that this process must send or has sent recently. For each other process, it also
// contains the number of the last message that this process has received.
type outbox struct {
	waiting shard.Waiting
	sent    []shard.Hints
	at      time.Time
	numbers map[string]int64
}

// Hint notifies the other processes that a runtime may have sent a new report. Hint only stores the hint, and the loop
// in Start sends it, so Hint does not block.
func (b *Board) Hint(runtime string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hints.waiting.Add(runtime)
}

func (b *Board) sendHints(ctx context.Context) error {
	fields, due := b.nextHints(time.Now())
	if !due {
		return nil
	}
	return b.patchFields(ctx, fields)
}

// nextHints returns the fields of the ConfigMap to write. due is false if no write is necessary.
func (b *Board) nextHints(now time.Time) (fields map[string]any, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &b.hints
	if now.Sub(o.at) < hintsInterval {
		return nil, false
	}
	next := o.waiting.Take(shard.MessageBytes(len(b.members), maxKeptHints))
	kept := shard.KeptHints(o.sent, now.Add(-hintsKept))
	if len(next) == 0 && len(kept) == len(o.sent) {
		return nil, false
	}
	if len(next) > 0 {
		kept = append(kept, shard.Hints{Number: now.UnixNano(), Runtimes: next})
	}
	o.sent, o.at = kept, now
	if len(kept) == 0 {
		return map[string]any{hintsField + b.member: nil}, true
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic("plain data always encodes: " + err.Error())
	}
	return map[string]any{hintsField + b.member: string(text)}, true
}

// receiveHints passes other processes' new hints to b.hinted.
func (b *Board) receiveHints(data map[string]string) {
	if b.hinted == nil {
		return
	}
	b.mu.Lock()
	var runtimes []string
	numbers := map[string]int64{}
	for key, value := range data {
		name, is := strings.CutPrefix(key, hintsField)
		if !is || name == b.member {
			continue
		}
		var found []string
		found, numbers[name] = shard.NewHints(value, b.hints.numbers[name])
		runtimes = append(runtimes, found...)
	}
	b.hints.numbers = numbers
	b.mu.Unlock()
	if len(runtimes) > 0 {
		b.hinted(runtimes)
	}
}
