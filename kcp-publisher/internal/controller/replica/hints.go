package replica

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// A process writes its hints at most once per hintsInterval. Hints stay in the ConfigMap for hintsKept, so that every
// process reads them. A lost hint only means that the next poll reads the report.
const hintsInterval, hintsKept = time.Second, 3 * time.Second

// outbox contains the hints of this process and the last received hints of the others.
type outbox struct {
	waiting shard.Waiting
	sent    []shard.Hints
	at      time.Time
	numbers map[string]int64
}

// Hint sends a hint that a runtime may have reported to the other processes. It does not block.
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

// nextHints returns the fields to write. due is false if no write is necessary.
func (b *Board) nextHints(now time.Time) (fields map[string]any, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &b.hints
	if now.Sub(o.at) < hintsInterval {
		return nil, false
	}
	next := o.waiting.Take()
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

// receiveHints passes the new hints of other processes to b.Hinted.
func (b *Board) receiveHints(data map[string]string) {
	if b.Hinted == nil {
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
		b.Hinted(runtimes)
	}
}
