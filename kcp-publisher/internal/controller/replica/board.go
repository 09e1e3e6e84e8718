// Package replica runs one of several processes that divide a fleet among themselves. It takes and hands over leases so
// that each process has its fair share of the shards and one of them is the planner, and keeps the ConfigMap in which
// they tell each other that they live and what is planned. What is decided is decided in package shard.
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
	// readInterval is how often the board is read, and beatInterval how often a member says that it lives.
	readInterval, beatInterval = 500 * time.Millisecond, 2 * time.Second
	// memberTimeout is after how long without a word a member counts as gone, memberForgotten after how long it is taken
	// off the board.
	memberTimeout, memberForgotten = 10 * time.Second, 5 * time.Minute
	// announcedFor is for how long what was read counts. Whoever waits for Outdated after a change knows that nobody goes
	// by what was there before.
	announcedFor = 6 * time.Second
	// Outdated is announcedFor with time for what was begun by then.
	Outdated = announcedFor + 2*time.Second
	// requestTimeout bounds one request to the API server.
	requestTimeout = 4 * time.Second

	announcedField, memberField, hearingsField = "announced", "member.", "hearings"
)

// Board is the ConfigMap that the processes share.
type Board struct {
	client    client.Client
	namespace string
	// name is that of the ConfigMap, and the planner's lease has it too.
	name, member string
	shards       int

	mu sync.Mutex // guards what follows
	// members are what was read of each, and since when that has not changed.
	members map[string]member
	// announced and holder of the planner's lease are as they were read; asked is when that was asked for, zero before.
	announced shard.Announcement
	holder    string
	asked     time.Time
	// own is what this process announced as the planner, nil for nothing.
	own *shard.Announcement
}

// member is what a member said last, and since when. Moved says that it has said something else before, so that it
// lived when this process did.
type member struct {
	said  string
	since time.Time
	moved bool
}

// NewBoard returns the board of a namespace for one of its members. Name is that of the planner's lease.
func NewBoard(api client.Client, namespace, name, member string, shards int) *Board {
	return &Board{client: api, namespace: namespace, name: name, member: member, shards: shards}
}

// Start reads the board and says that this member lives, until the context ends; then it takes the member off.
func (b *Board) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("replica")
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	var beat time.Time
	told := ""
	for count := 0; ; {
		err := b.read(ctx)
		if err == nil && time.Since(beat) >= beatInterval && (count > 0 || b.knowsOthers()) {
			count++
			beat = time.Now()
			err = b.say(ctx, fmt.Sprintf("%d %d", b.shards, count))
		}
		if text := fmt.Sprint(err); err != nil && text != told && ctx.Err() == nil {
			log.Error(err, "failed to reach the other replicas")
			told = text
		} else if err == nil {
			told = ""
		}
		select {
		case <-ctx.Done():
			return b.leave()
		case <-tick.C:
		}
	}
}

// knowsOthers reports whether it is known of all others whether they live. Who joins before would wait for those that
// do not to take their share, while the others have given up its own.
func (b *Board) knowsOthers() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range b.members {
		if name != b.member && !m.moved && b.asked.Sub(m.since) <= memberTimeout {
			return false
		}
	}
	return true
}

// NeedLeaderElection says that every process reads the board.
func (b *Board) NeedLeaderElection() bool { return false }

// leave takes the member off the board, so that nobody waits for it. One that cannot is waited for.
func (b *Board) leave() error {
	if err := b.patch(context.Background(), map[string]any{memberField + b.member: nil}); err != nil {
		ctrl.Log.WithName("replica").Info("failed to take leave of the other replicas", "error", err.Error())
	}
	return nil
}

func (b *Board) object(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
}

func (b *Board) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked, config := time.Now(), b.object(b.name)
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(config), config); apierrors.IsNotFound(err) {
		if err := b.client.Create(ctx, config); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ConfigMap %s/%s: %w", b.namespace, b.name, err)
		}
	} else if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", b.namespace, b.name, err)
	}
	lease := &coordinationv1.Lease{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: b.name}, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Lease %s/%s: %w", b.namespace, b.name, err)
	}
	var announced shard.Announcement
	if text := config.Data[announcedField]; text != "" {
		if err := json.Unmarshal([]byte(text), &announced); err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %s: %w: remove that field, and the planner writes it again", b.namespace, b.name, announcedField, err)
		}
	}
	own, forgotten := b.take(config.Data, announced, lease, asked)
	if own != nil && *own != announced {
		return b.write(ctx, *own) // somebody else changed it
	}
	if len(forgotten) > 0 {
		return b.patch(ctx, forgotten)
	}
	return nil
}

// take notes what was read. It returns what this process announced, and which members are to be taken off.
func (b *Board) take(data map[string]string, announced shard.Announcement, lease *coordinationv1.Lease, asked time.Time) (own *shard.Announcement, forgotten map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announced, b.holder, b.asked, forgotten = announced, "", asked, map[string]any{}
	if lease.Spec.HolderIdentity != nil {
		b.holder = *lease.Spec.HolderIdentity
	}
	next := map[string]member{}
	for key, said := range data {
		name, is := strings.CutPrefix(key, memberField)
		if !is {
			continue
		}
		known, was := b.members[name]
		if !was || known.said != said {
			known = member{said, asked, was}
		}
		next[name] = known
		if asked.Sub(known.since) > memberForgotten && name != b.member {
			forgotten[key] = nil
		}
	}
	b.members = next
	return b.own, forgotten
}

func (b *Board) say(ctx context.Context, what string) error {
	return b.patch(ctx, map[string]any{memberField + b.member: what})
}

func (b *Board) write(ctx context.Context, a shard.Announcement) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return b.patch(ctx, map[string]any{announcedField: string(text)})
}

// patch writes fields of the board; nil removes one.
func (b *Board) patch(ctx context.Context, fields map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"data": fields})
	if err != nil {
		return err
	}
	if err := b.client.Patch(ctx, b.object(b.name), client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", b.namespace, b.name, err)
	}
	return nil
}

// Announce tells all members what is planned, as long as this process holds the planner's lease.
func (b *Board) Announce(ctx context.Context, state string, active bool) error {
	a := shard.Announcement{Holder: b.member, Shards: b.shards, State: state, Active: active}
	b.mu.Lock()
	same := b.own != nil && *b.own == a
	b.own = &a
	b.mu.Unlock()
	if same {
		return nil // else it is written again when it is read
	}
	return b.write(ctx, a)
}

// Resign ends what Announce began.
func (b *Board) Resign() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own = nil
}

// Announced returns what the planner has announced; known is false while that may be out of date, or is not for as many
// shards.
func (b *Board) Announced() (a shard.Announcement, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.announced, b.fresh() && b.announced.Valid(b.shards, b.holder)
}

// fresh reports whether what was read counts. It is for callers that hold mu.
func (b *Board) fresh() bool {
	now := time.Now()
	// By both clocks: one stands still while a machine sleeps, the other can be set.
	return !b.asked.IsZero() && max(now.Sub(b.asked), now.Round(0).Sub(b.asked.Round(0))) <= announcedFor
}

// Shards returns how many shards there were for whoever planned last, 0 for nobody; known is false while that is not
// read.
func (b *Board) Shards() (shards int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.announced.Shards, b.fresh()
}

// Members returns the processes that divide the fleet into as many shards and live; known is false while that may be
// out of date.
func (b *Board) Members() (live []string, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	live = []string{b.member}
	for name, m := range b.members {
		shards, _, _ := strings.Cut(m.said, " ")
		if name != b.member && shards == strconv.Itoa(b.shards) && b.asked.Sub(m.since) <= memberTimeout {
			live = append(live, name)
		}
	}
	_, said := b.members[b.member]
	return live, said && b.fresh()
}

// hearingsName is that of the ConfigMap in which a shard tells when its runtimes were heard.
func (b *Board) hearingsName(n int) string { return fmt.Sprintf("%s-heard-%d", b.name, n) }

// Tell writes when the runtimes of a shard were heard.
func (b *Board) Tell(ctx context.Context, n int, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := b.object(b.hearingsName(n))
	body, err := json.Marshal(map[string]any{"binaryData": map[string][]byte{hearingsField: data}})
	if err != nil {
		return err
	}
	err = b.client.Patch(ctx, config, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsNotFound(err) {
		config.BinaryData = map[string][]byte{hearingsField: data}
		err = b.client.Create(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", b.namespace, config.Name, err)
	}
	return nil
}

// Hearings reads what Tell wrote, nil for nothing.
func (b *Board) Hearings(ctx context.Context, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := b.object(b.hearingsName(n))
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(config), config); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", b.namespace, config.Name, err)
	}
	return config.BinaryData[hearingsField], nil
}
