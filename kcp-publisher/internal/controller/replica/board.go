// Package replica coordinates the publisher processes (replicas) that share a fleet. In each process, it acquires and
// releases the Leases of the shards and the planner. It runs a shard or the planner while the process holds its
// Lease. It also reads and writes the ConfigMap with the processes' heartbeats and the planner's announcement.
package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

const (
	readInterval, heartbeatInterval = 500 * time.Millisecond, 2 * time.Second
	// A process counts as dead if its heartbeat has not changed for memberTimeout. After memberRemovalTimeout, the
	// other processes remove it from the ConfigMap.
	memberTimeout, memberRemovalTimeout = 10 * time.Second, 5 * time.Minute
	// If a process cannot read the ConfigMap, it uses the last announcement for at most announcementTimeout.
	announcementTimeout = 6 * time.Second
	// OutdatedAfter is the maximum time that a process can still use an older announcement after the planner has
	// written a new one.
	OutdatedAfter  = announcementTimeout + 2*time.Second
	requestTimeout = 4 * time.Second
	// A process also stops using announcements when its last heartbeat is older than heartbeatTimeout. The planner
	// therefore does not wait for a process if its heartbeat has not changed for silentTimeout. The planner can read a
	// heartbeat up to requestTimeout before the write returns.
	heartbeatTimeout = 10 * time.Second
	silentTimeout    = heartbeatTimeout + requestTimeout + time.Second

	announcedField, memberField, hintsField, reportTimesField = "announced", "member.", "hints.", "hearings"
)

// Board reads and writes the ConfigMap through which the publisher processes communicate.
type Board struct {
	client    client.Client
	namespace string
	// name is the name of the ConfigMap, which is also the name of the planner's Lease. member is the name of this
	// process.
	name, member string
	shards       int
	hinted       func(runtimes []string)

	// writing is locked while this process writes its announcement, so that an older announcement cannot overwrite a
	// newer one.
	writing sync.Mutex

	mu sync.Mutex // guards the fields below
	// members maps the name of each process to its last heartbeat and to the time at which the heartbeat last changed.
	members map[string]member
	// announcement is the planner's announcement, and holder is the holder of the planner's Lease, both from the last
	// read. readAt is the start of that read, or zero before the first read.
	announcement shard.Announcement
	holder       string
	readAt       time.Time
	// heartbeatText is the last heartbeat that this process wrote, and heartbeatAt is the start of that write.
	// confirmedAt is the heartbeatAt of the last heartbeat that this process has also read.
	heartbeatText            string
	heartbeatAt, confirmedAt time.Time
	// incompleteUntil is the time until which a live process can be missing from members, because this process has just
	// started or another client changed the ConfigMap.
	incompleteUntil time.Time
	// ownAnnouncement is this process's announcement if it is the planner, or nil. wrote is the number of the last
	// announcement that this process wrote, and written is the time at which that write ended.
	ownAnnouncement *shard.Announcement
	wrote           int64
	written         time.Time
	// comparisons counts this process's requests for a comparison with Git. compared is true if any process has
	// requested a comparison since the last call to ComparisonRequested.
	comparisons int64
	compared    bool
	hints       outbox
}

// member contains the last heartbeat of a process. changedAt is the time at which the heartbeat last changed.
// hasChanged is true if it has changed since this process started.
type member struct {
	heartbeat  string
	changedAt  time.Time
	hasChanged bool
}

// NewBoard returns a process's Board. member is this process's name. name is the name of the ConfigMap and the
// planner's Lease. When another process has received notifications about new reports, hinted is called with the
// runtimes. hinted can be nil and must not block.
func NewBoard(
	api client.Client, namespace, name, member string, shards int, hinted func(runtimes []string),
) *Board {
	return &Board{client: api, namespace: namespace, name: name, member: member, shards: shards, hinted: hinted}
}

// Start reads the ConfigMap and writes this process's heartbeats until the context ends. Then it removes this process
// from the ConfigMap.
func (b *Board) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("replica")
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	var beat time.Time
	var last heartbeat
	lastError := ""
	for {
		err := b.readConfigMap(ctx)
		if next, urgent := b.heartbeat(last); err == nil && (urgent || time.Since(beat) >= heartbeatInterval) &&
			(last.count > 0 || b.hasReadMembers()) {
			beat = time.Now()
			if err = b.writeHeartbeat(ctx, next.String()); err == nil {
				last = next
			} else {
				last.count = next.count
			}
		}
		if err == nil {
			err = b.sendHints(ctx)
		}
		if text := fmt.Sprint(err); err != nil && text != lastError && ctx.Err() == nil {
			log.Error(err, "failed to reach the other replicas")
			lastError = text
		} else if err == nil {
			lastError = ""
		}
		select {
		case <-ctx.Done():
			return b.removeMember()
		case <-tick.C:
		}
	}
}

// hasReadMembers reports whether this process has read the list of live processes. It must read the list before it
// writes its first heartbeat, because the other processes release shards to this process after its first heartbeat.
func (b *Board) hasReadMembers() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range b.members {
		if name != b.member && !m.hasChanged && b.readAt.Sub(m.changedAt) <= memberTimeout {
			return false
		}
	}
	return true
}

// NeedLeaderElection returns false, because every process needs the Board.
func (b *Board) NeedLeaderElection() bool { return false }

// removeMember removes this process from the ConfigMap, so that the other processes can take over its shards without
// waiting for memberTimeout.
func (b *Board) removeMember() error {
	if err := b.patchFields(context.Background(),
		map[string]any{memberField + b.member: nil, hintsField + b.member: nil}); err != nil {
		ctrl.Log.WithName("replica").Info("failed to remove this replica from the ConfigMap", "error", err.Error())
	}
	return nil
}

func (b *Board) newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
}

func (b *Board) readConfigMap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked, config := time.Now(), b.newConfigMap(b.name)
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(config), config); apierrors.IsNotFound(err) {
		if err := b.client.Create(ctx, config); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ConfigMap %s/%s: %w", b.namespace, b.name, err)
		}
	} else if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", b.namespace, b.name, err)
	}
	lease := &coordinationv1.Lease{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: b.name},
		lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Lease %s/%s: %w", b.namespace, b.name, err)
	}
	var announced shard.Announcement
	if text := config.Data[announcedField]; text != "" {
		if err := json.Unmarshal([]byte(text), &announced); err != nil {
			return fmt.Errorf("ConfigMap %s/%s: field %s: %w: remove the field; the planner writes it again",
				b.namespace, b.name, announcedField, err)
		}
	}
	own, forgotten := b.storeContent(config.Data, announced, lease, asked)
	b.receiveHints(config.Data)
	if own != nil && !own.Equal(announced) {
		// Another client has changed or removed this process's announcement.
		return b.restore(ctx)
	}
	if len(forgotten) > 0 {
		return b.patchFields(ctx, forgotten)
	}
	return nil
}

// storeContent copies the ConfigMap's content to b. It returns this process's own announcement, and the fields of dead
// processes, which must be removed from the ConfigMap.
func (b *Board) storeContent(
	data map[string]string, announced shard.Announcement, lease *coordinationv1.Lease, asked time.Time,
) (own *shard.Announcement, forgotten map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !announced.Supersedes(b.announcement) {
		announced = b.announcement
	}
	isFirst := b.readAt.IsZero()
	b.announcement, b.holder, b.readAt, forgotten = announced, "", asked, map[string]any{}
	if b.heartbeatText != "" && data[memberField+b.member] == b.heartbeatText {
		b.confirmedAt = b.heartbeatAt
	}
	if lease.Spec.HolderIdentity != nil {
		b.holder = *lease.Spec.HolderIdentity
	}
	next := map[string]member{}
	for key, value := range data {
		name, is := strings.CutPrefix(key, memberField)
		if !is {
			continue
		}
		known, was := b.members[name]
		if !was || known.heartbeat != value {
			b.compared = b.compared || was && asksToCompare(known.heartbeat, value)
			known = member{value, asked, was}
		}
		next[name] = known
		if asked.Sub(known.changedAt) > memberRemovalTimeout && name != b.member {
			forgotten[key], forgotten[hintsField+name] = nil, nil
		}
	}
	if isFirst || b.lostMember(next) {
		b.incompleteUntil = asked.Add(OutdatedAfter)
	}
	b.members = next
	return b.ownAnnouncement, forgotten
}

// lostMember reports whether a process that may use announcements is missing from the new members. The caller must hold
// b.mu.
func (b *Board) lostMember(next map[string]member) bool {
	for name, known := range b.members {
		if _, exists := next[name]; !exists && !b.isSilent(known) {
			return true
		}
	}
	return false
}

// isSilent reports whether a process has stopped using announcements, because its heartbeat has not changed for
// silentTimeout. Processes of version 0.1.0 use announcements even without a current heartbeat, so they never count
// as silent. The caller must hold b.mu.
func (b *Board) isSilent(m member) bool {
	return acknowledges(m.heartbeat) && b.readAt.Sub(m.changedAt) > silentTimeout
}

func (b *Board) writeHeartbeat(ctx context.Context, text string) error {
	began := time.Now()
	if err := b.patchFields(ctx, map[string]any{memberField + b.member: text}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heartbeatText, b.heartbeatAt = text, began
	return nil
}

// patchFields writes fields of the ConfigMap. A nil value removes the field.
func (b *Board) patchFields(ctx context.Context, fields map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"data": fields})
	if err != nil {
		return err
	}
	if err := b.client.Patch(ctx, b.newConfigMap(b.name), client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", b.namespace, b.name, err)
	}
	return nil
}

// ClearAnnouncement must be called when this process stops being the planner. From then on, this process does not
// restore its announcement if another client changes or removes it.
func (b *Board) ClearAnnouncement() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ownAnnouncement = nil
}

// Announced returns the planner's announcement. known is false if the announcement may be outdated, if the planner
// may not have read this process's heartbeat, or if the planner uses a different number of shards than this process.
// The announcement's field State is empty while publishing has stopped because of a Git commit.
func (b *Board) Announced() (a shard.Announcement, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isAlive := isWithin(b.confirmedAt, heartbeatTimeout)
	return b.announcement, isAlive && b.isFresh() && b.announcement.Current(b.shards, b.holder)
}

// isFresh reports whether the ConfigMap was read within announcementTimeout. The caller must hold b.mu.
func (b *Board) isFresh() bool { return isWithin(b.readAt, announcementTimeout) }

// isWithin reports whether a time is at most limit ago. It checks both clocks, because the monotonic clock stops while
// a machine sleeps, and the wall clock can be changed.
func isWithin(at time.Time, limit time.Duration) bool {
	now := time.Now()
	return !at.IsZero() && max(now.Sub(at), now.Round(0).Sub(at.Round(0))) <= limit
}

// Shards returns the number of shards in the last announcement, or 0. known is false if the ConfigMap was not read
// recently.
func (b *Board) Shards() (shards int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.announcement.Shards, b.isFresh()
}

// Members returns the names of the live processes that have the same number of shards as this process. known is false
// if the list may be outdated.
func (b *Board) Members() (live []string, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	live = []string{b.member}
	for name, m := range b.members {
		shards, _, _ := strings.Cut(m.heartbeat, " ")
		if name != b.member && shards == strconv.Itoa(b.shards) && b.readAt.Sub(m.changedAt) <= memberTimeout {
			live = append(live, name)
		}
	}
	_, isMember := b.members[b.member]
	return live, isMember && b.isFresh()
}

func (b *Board) reportTimesName(n int) string { return fmt.Sprintf("%s-heard-%d", b.name, n) }

// WriteReportTimes stores the report times of shard n. data is an encoded shard.ReportTimes.
func (b *Board) WriteReportTimes(ctx context.Context, n int, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.writeData(ctx, b.newConfigMap(b.reportTimesName(n)), reportTimesField, data)
}

func (b *Board) writeData(ctx context.Context, config *corev1.ConfigMap, field string, data []byte) error {
	body, err := json.Marshal(map[string]any{"binaryData": map[string][]byte{field: data}})
	if err != nil {
		return err
	}
	err = b.client.Patch(ctx, config, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsNotFound(err) {
		config.BinaryData = map[string][]byte{field: data}
		err = b.client.Create(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", b.namespace, config.Name, err)
	}
	return nil
}

// ReportTimes returns the data that WriteReportTimes stored for shard n, or nil.
func (b *Board) ReportTimes(ctx context.Context, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.readData(ctx, b.newConfigMap(b.reportTimesName(n)), reportTimesField)
}

func (b *Board) readData(ctx context.Context, config *corev1.ConfigMap, field string) ([]byte, error) {
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(config), config); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", b.namespace, config.Name, err)
	}
	return config.BinaryData[field], nil
}
