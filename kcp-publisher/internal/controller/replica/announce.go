package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

const (
	ackPoll        = 100 * time.Millisecond
	approvalsField = "approvals"
)

// heartbeat is the text that each process regularly writes to the ConfigMap. It contains the process's configured
// number of shards, a counter, the number of the announcement that the process last read, and the number of its
// requests for a comparison with Git.
type heartbeat struct {
	shards      int
	count       int64
	read        string
	comparisons int64
}

func (h heartbeat) String() string {
	return fmt.Sprintf("%d %d %s %d", h.shards, h.count, h.read, h.comparisons)
}

// heartbeat returns this process's next heartbeat. urgent is true if it must be written immediately, because the
// planner is waiting for it or because another client has removed the last one.
func (b *Board) heartbeat(last heartbeat) (next heartbeat, urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next = heartbeat{b.shards, last.count + 1, nameOf(b.announcement), b.comparisons}
	_, isMember := b.members[b.member]
	return next, b.announcement.Held != "" && next.read != last.read || next.comparisons != last.comparisons || !isMember
}

// nameOf returns the text that identifies an announcement in heartbeats.
func nameOf(a shard.Announcement) string { return a.Holder + "/" + strconv.FormatInt(a.Number, 10) }

// hasRead reports whether the process with this heartbeat has read the announcement, or a newer one from the same
// planner.
func hasRead(beat string, a shard.Announcement) bool {
	if !acknowledges(beat) {
		return false
	}
	fields := strings.Fields(beat)
	at := strings.LastIndex(fields[2], "/")
	if at < 0 || fields[2][:at] != a.Holder {
		return false
	}
	number, err := strconv.ParseInt(fields[2][at+1:], 10, 64)
	return err == nil && number >= a.Number
}

// acknowledges reports whether the process with this heartbeat acknowledges announcements. Processes of version 0.1.0
// do not.
func acknowledges(beat string) bool { return len(strings.Fields(beat)) >= 3 }

// asksToCompare reports whether a process requested a comparison with Git between two heartbeats.
func asksToCompare(before, after string) bool {
	was, is := strings.Fields(before), strings.Fields(after)
	return len(was) >= 4 && len(is) >= 4 && was[3] != is[3]
}

// Announce writes the planner's announcement to the ConfigMap, from which all processes read it. The caller must hold
// the planner's Lease. Announce sets the fields Holder, Shards and Number.
func (b *Board) Announce(ctx context.Context, a shard.Announcement) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	a.Holder, a.Shards, a.Number = b.member, b.shards, time.Now().UnixNano()
	if b.announcement.Holder == b.member {
		// The announcement in the ConfigMap is from this process before a restart. The clock may have been set back
		// since then.
		a.Number = max(a.Number, b.announcement.Number+1)
	}
	if b.ownAnnouncement != nil {
		same := a
		if same.Number = b.ownAnnouncement.Number; same.Equal(*b.ownAnnouncement) && b.wrote == same.Number {
			b.mu.Unlock()
			// The ConfigMap already contains this announcement. If another client removes it, the process writes it
			// again when it next reads the ConfigMap.
			return nil
		}
		a.Number = max(a.Number, b.ownAnnouncement.Number+1)
	}
	b.ownAnnouncement = &a
	b.mu.Unlock()
	return b.writeAnnouncement(ctx, a)
}

// restore writes this process's announcement to the ConfigMap again if this process is the planner.
func (b *Board) restore(ctx context.Context) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	own := b.ownAnnouncement
	b.mu.Unlock()
	if own == nil {
		return nil
	}
	return b.writeAnnouncement(ctx, *own)
}

// writeAnnouncement writes an announcement to the ConfigMap. The caller must hold b.writing.
func (b *Board) writeAnnouncement(ctx context.Context, a shard.Announcement) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := b.patchFields(ctx, map[string]any{announcedField: string(text)}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrote, b.written = a.Number, time.Now()
	return nil
}

// Acknowledged waits until no process uses an older announcement than this process's last one. This is the case when
// all processes have read the last announcement, or OutdatedAfter after it was written.
func (b *Board) Acknowledged(ctx context.Context) error {
	for {
		done, err := b.acknowledged(time.Now())
		if done || err != nil {
			return err
		}
		if !pause.Sleep(ctx, ackPoll) {
			return ctx.Err()
		}
	}
}

func (b *Board) acknowledged(now time.Time) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ownAnnouncement == nil || b.wrote != b.ownAnnouncement.Number {
		return false, fmt.Errorf("ConfigMap %s/%s does not contain this replica's announcement yet", b.namespace, b.name)
	}
	if now.Sub(b.written) >= OutdatedAfter {
		return true, nil
	}
	if !b.readAt.After(b.written) || b.readAt.Before(b.incompleteUntil) {
		return false, nil
	}
	for _, m := range b.members {
		if !hasRead(m.heartbeat, *b.ownAnnouncement) && !b.isSilent(m) {
			return false, nil
		}
	}
	return true, nil
}

// RequestComparison asks the planner to compare the control plane with the newest commit.
func (b *Board) RequestComparison() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.comparisons++
}

// ComparisonRequested reports whether a process has requested a comparison since the last call.
func (b *Board) ComparisonRequested() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.compared
	b.compared = false
	return was
}

// WriteApprovals stores the removals that an operator approved for a commit. data is an encoded
// shard.Approvals.
func (b *Board) WriteApprovals(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.writeData(ctx, b.newConfigMap(b.name+"-approved"), approvalsField, data)
}

// Approvals returns the data that WriteApprovals stored, or nil.
func (b *Board) Approvals(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.readData(ctx, b.newConfigMap(b.name+"-approved"), approvalsField)
}
