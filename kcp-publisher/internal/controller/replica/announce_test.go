package replica

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// board returns a Board with its ConfigMap and Lease in an in-memory API server.
func board(t *testing.T, member string, api client.Client) *Board {
	t.Helper()
	return NewBoard(api, "kcp-system", "lease", member, 3, nil)
}

func memory(t *testing.T, funcs interceptor.Funcs) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	lease := leaseOf("planner")
	lease.ObjectMeta = metav1.ObjectMeta{Namespace: "kcp-system", Name: "lease"}
	config := &corev1.ConfigMap{ObjectMeta: lease.ObjectMeta}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease, config).WithInterceptorFuncs(funcs).Build()
}

func read(t *testing.T, boards ...*Board) {
	t.Helper()
	for _, b := range boards {
		if err := b.readConfigMap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// beat writes the next heartbeat of each process.
func beat(t *testing.T, count int64, boards ...*Board) {
	t.Helper()
	for _, b := range boards {
		next, _ := b.heartbeat(heartbeat{count: count})
		if err := b.writeHeartbeat(t.Context(), next.String()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlannerWaitsUntilEveryReplicaHasReadTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := memory(t, interceptor.Funcs{})
		planner, other := board(t, "planner", api), board(t, "other", api)
		if _, err := planner.acknowledged(time.Now()); err == nil {
			t.Error("an announcement that does not exist is acknowledged")
		}
		acknowledged := func() bool {
			t.Helper()
			done, err := planner.acknowledged(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		beat(t, 0, planner, other)
		read(t, planner, other)
		time.Sleep(OutdatedAfter) // until then, a live replica can be missing from the ConfigMap
		if err := planner.Announce(t.Context(), shard.Announcement{State: "s"}); err != nil {
			t.Fatal(err)
		}
		read(t, other) // reads the older announcement
		if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(readInterval)
		read(t, planner)
		beat(t, 1, planner, other)
		read(t, planner)
		if acknowledged() {
			t.Error("the hold is acknowledged although a replica has not read it")
		}
		read(t, other)
		if a, known := other.Announced(); !known || a.State != "" || a.Held != "commit c1" {
			t.Errorf("the replica has read %+v, known %t", a, known)
		}
		if _, urgent := other.heartbeat(heartbeat{count: 1}); !urgent {
			t.Error("a replica that has read a hold does not acknowledge it immediately")
		}
		beat(t, 2, other)
		if acknowledged() {
			t.Error("the hold is acknowledged although the planner has not read the heartbeat")
		}
		if read(t, planner); !acknowledged() {
			t.Error("the hold is not acknowledged after all replicas have read it")
		}
	})
}

func TestPlannerWaitsForReplicasMissingFromTheConfigMap(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	synctest.Test(t, func(t *testing.T) {
		planner, other := board(t, "planner", api), board(t, "other", api)
		beat(t, 0, planner, other)
		read(t, planner, other)
		time.Sleep(OutdatedAfter)
		if err := planner.Announce(t.Context(), shard.Announcement{State: "s"}); err != nil {
			t.Fatal(err)
		}
		beat(t, 1, planner, other)
		read(t, planner, other)
		if a, known := other.Announced(); !known || a.State != "s" {
			t.Fatalf("the replica has read %+v, known %t", a, known)
		}
		if err := api.Delete(t.Context(), planner.newConfigMap("lease")); err != nil {
			t.Fatal(err)
		}
		read(t, planner, planner) // creates the ConfigMap and writes the announcement again
		if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
			t.Fatal(err)
		}
		beat(t, 2, planner)
		read(t, planner)
		time.Sleep(readInterval)
		beat(t, 3, planner)
		read(t, planner)
		if done, err := planner.acknowledged(time.Now()); done || err != nil {
			t.Errorf("acknowledged %t, error %v, although the replica still uses the state", done, err)
		}
		if _, known := other.Announced(); !known {
			t.Fatal("the replica no longer uses the state, so this test proves nothing")
		}
		read(t, other)
		if _, urgent := other.heartbeat(heartbeat{count: 1}); !urgent {
			t.Error("a replica whose heartbeat was removed does not write it again immediately")
		}
	})
}

func TestPlannerDoesNotWaitForKilledReplicas(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	synctest.Test(t, func(t *testing.T) {
		planner, killed := board(t, "planner", api), board(t, "killed", api)
		if err := planner.Announce(t.Context(), shard.Announcement{State: "s"}); err != nil {
			t.Fatal(err)
		}
		beat(t, 0, planner, killed)
		read(t, planner, killed)
		for count := range int64(4) {
			if _, known := killed.Announced(); known != (count < 2) {
				t.Errorf("%d heartbeats after its last one, the replica uses announcements: %t", count, known)
			}
			time.Sleep(heartbeatTimeout * 2 / 3)
			beat(t, count+1, planner)
			read(t, planner)
			killed.readAt = time.Now() // this replica can read but not write
		}
		if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(readInterval)
		read(t, planner)
		beat(t, 5, planner)
		read(t, planner)
		if done, err := planner.acknowledged(time.Now()); !done || err != nil {
			t.Errorf("acknowledged %t, error %v, although only the killed replica has not read the hold", done, err)
		}
	})
}

func TestRestartedPlannerNeedsNewAcknowledgments(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	before, other := board(t, "planner", api), board(t, "other", api)
	// The planner wrote this announcement while its clock was ahead.
	ahead := shard.Announcement{Holder: "planner", Shards: 3, State: "s", Number: time.Now().Add(time.Hour).UnixNano()}
	if err := before.writeAnnouncement(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	read(t, other)
	beat(t, 1, other)
	planner := board(t, "planner", api)
	read(t, planner)
	if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
		t.Fatal(err)
	}
	read(t, planner)
	if done, err := planner.acknowledged(time.Now()); done || err != nil {
		t.Errorf("acknowledged %t, error %v, although the replica uses the old state", done, err)
	}
	read(t, other)
	if a, known := other.Announced(); !known || a.Held != "commit c1" {
		t.Errorf("the replica has read %+v, known %t, want the hold", a, known)
	}
}

func TestPlannerWaitsForReplicasThatDoNotAcknowledge(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	planner := board(t, "planner", api)
	// Add a replica of an older version, which does not acknowledge announcements.
	if err := planner.patchFields(t.Context(), map[string]any{memberField + "old": "3 7"}); err != nil {
		t.Fatal(err)
	}
	if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
		t.Fatal(err)
	}
	beat(t, 0, planner)
	read(t, planner)
	beat(t, 1, planner)
	read(t, planner)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {announcementTimeout, false}, {OutdatedAfter, true}} {
		if done, err := planner.acknowledged(planner.written.Add(c.after)); err != nil || done != c.want {
			t.Errorf("after %s: acknowledged %t, error %v, want %t", c.after, done, err, c.want)
		}
	}
}

func TestWaitForAcknowledgmentsEndsWithItsContext(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	synctest.Test(t, func(t *testing.T) {
		planner := board(t, "planner", api)
		if err := planner.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := planner.Acknowledged(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the end of the context", err)
		}
		began := time.Now()
		if err := planner.Acknowledged(t.Context()); err != nil || time.Since(began) > OutdatedAfter {
			t.Errorf("got error %v after %s, want none after at most %s", err, time.Since(began), OutdatedAfter)
		}
	})
}

// The test checks that every write of an announcement holds the lock Board.writing. Without this lock, a restored
// announcement could overwrite a newer one that another goroutine writes at the same time.
func TestAnnouncementsAreWrittenSequentially(t *testing.T) {
	var b *Board
	writes := 0
	api := memory(t, interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if data, err := patch.Data(object); err != nil || strings.Contains(string(data), `holder`) {
			if writes++; b.writing.TryLock() {
				b.writing.Unlock()
				t.Errorf("write %d of an announcement does not exclude others", writes)
			}
		}
		return c.Patch(ctx, object, patch, options...)
	}})
	b = board(t, "planner", api)
	beat(t, 0, b)
	if err := b.Announce(t.Context(), shard.Announcement{Held: "commit c1"}); err != nil {
		t.Fatal(err)
	}
	if err := b.patchFields(t.Context(), map[string]any{announcedField: nil}); err != nil {
		t.Fatal(err)
	}
	read(t, b, b)
	if a, known := b.Announced(); !known || a.Held != "commit c1" || writes != 2 {
		t.Errorf("the ConfigMap contains %+v, known %t, after %d writes, want the restored hold", a, known, writes)
	}
}

func TestUnchangedAnnouncementIsNotWritten(t *testing.T) {
	writes, refuse := 0, false
	api := memory(t, interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if writes++; refuse {
			return errors.New("refused")
		}
		return c.Patch(ctx, object, patch, options...)
	}})
	b := board(t, "planner", api)
	for i, c := range []struct {
		a      shard.Announcement
		refuse bool
		want   int
	}{
		{shard.Announcement{State: "s"}, false, 1}, {shard.Announcement{State: "s"}, false, 1},
		{shard.Announcement{Held: "h"}, true, 2}, {shard.Announcement{Held: "h"}, false, 3},
		{shard.Announcement{Held: "h"}, false, 3},
	} {
		refuse = c.refuse
		if err := b.Announce(t.Context(), c.a); (err != nil) != c.refuse || writes != c.want {
			t.Errorf("announcement %d: got %d writes and error %v, want %d writes", i, writes, err, c.want)
		}
	}
}

func TestForwardedNotificationsReachOtherReplicas(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	sender, receiver := board(t, "sender", api), board(t, "receiver", api)
	var got []string
	receiver.hinted = func(runtimes []string) { got = append(got, runtimes...) }
	sender.hinted = func(runtimes []string) { t.Errorf("the sender received its own hints %v", runtimes) }
	sender.Hint("one")
	sender.Hint("two")
	if err := sender.sendHints(t.Context()); err != nil {
		t.Fatal(err)
	}
	read(t, receiver, sender, receiver)
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got hints about %v, want one and two once", got)
	}
	now := time.Now()
	sender.Hint("three")
	if _, due := sender.nextHints(now.Add(-time.Hour)); due {
		t.Error("hints are sent before the interval has passed")
	}
	if fields, due := sender.nextHints(now.Add(hintsInterval)); !due || len(fields) != 1 {
		t.Errorf("got fields %v, due %t, want the third hint", fields, due)
	}
	if fields, due := sender.nextHints(now.Add(time.Minute)); !due || fields[hintsField+"sender"] != nil {
		t.Errorf("got fields %v, due %t, want the old hints removed", fields, due)
	}
	if _, due := sender.nextHints(now.Add(2 * time.Minute)); due {
		t.Error("a replica without hints writes")
	}
}

func TestComparisonRequestReachesThePlanner(t *testing.T) {
	api := memory(t, interceptor.Funcs{})
	planner, other := board(t, "planner", api), board(t, "other", api)
	beat(t, 0, other)
	read(t, planner)
	beat(t, 1, other)
	if read(t, planner); planner.ComparisonRequested() {
		t.Error("a comparison is requested before the request")
	}
	read(t, other)
	if _, urgent := other.heartbeat(heartbeat{read: nameOf(shard.Announcement{})}); urgent {
		t.Error("a heartbeat without a request is urgent")
	}
	other.RequestComparison()
	if _, urgent := other.heartbeat(heartbeat{read: nameOf(shard.Announcement{})}); !urgent {
		t.Error("a replica does not pass on the request immediately")
	}
	beat(t, 2, other)
	if read(t, planner); !planner.ComparisonRequested() || planner.ComparisonRequested() {
		t.Error("the planner must receive the request once")
	}
}
