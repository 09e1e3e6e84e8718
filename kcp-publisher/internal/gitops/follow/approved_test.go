package follow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

func pruning(allowed bool) Survey {
	kyma, meta := Key{Kind: schema.GroupKind{Kind: kindKyma}, Name: "berlin"},
		Key{Kind: schema.GroupKind{Kind: "ModuleReleaseMeta"}, Name: "watchdog"}
	live := map[Key]*unstructured.Unstructured{
		kyma: {Object: map[string]any{"metadata": map[string]any{"uid": "uid-berlin"}}},
		meta: {Object: map[string]any{"kind": "ModuleReleaseMeta", "spec": map[string]any{
			"moduleName": "watchdog", "mandatory": map[string]any{"version": "1.0.0"},
		}}},
	}
	return Survey{Plan: Plan{Prune: []Key{kyma, meta}}, Live: live, allowed: allowed}
}

func TestApprovalIsValidForOneCommit(t *testing.T) {
	f := &Follower{}
	approved := func(kyma types.UID, module string) bool { return !f.ApprovedAt(kyma, module).IsZero() }
	current := func(commit string) { f.current.Store(&bundle.Source{Commit: commit}) }
	check := func(when string, want bool) {
		t.Helper()
		if approved("uid-berlin", "") != want || approved("uid-berlin", "watchdog") != want {
			t.Errorf("%s: got approval of the Kyma %t and of the module %t, want %t", when, approved("uid-berlin", ""),
				approved("uid-berlin", "watchdog"), want)
		}
	}
	f.recordApproved("c1", pruning(true))
	check("before the commit is applied", false)
	current("c1")
	check("once the commit is applied", true)
	if approved("uid-of-a-later-kyma", "") || approved("uid-berlin", "other") {
		t.Error("the approval covers a Kyma or module that the commit does not remove")
	}
	at := f.ApprovedAt("uid-berlin", "")
	f.recordApproved("c1", Survey{}) // a later poll does not find objects to prune
	check("after another poll of the commit", true)
	if !f.ApprovedAt("uid-berlin", "").Equal(at) {
		t.Error("another poll renewed the approval")
	}
	f.recordApproved("c2", Survey{})
	check("while the next commit is applied", false)
	current("c2")
	check("after the next commit", false)
	f.recordApproved("c3", pruning(false))
	current("c3")
	check("after a commit without approval", false)
}

// A commit can be approved days after it was applied, for example because an object's annotation kept the object.
func TestLaterApprovalOfTheSameCommitHasItsOwnTime(t *testing.T) {
	f := &Follower{}
	f.current.Store(&bundle.Source{Commit: "c1"})
	f.recordApproved("c1", Survey{})
	f.approved.Load().At = time.Now().Add(-48 * time.Hour)
	f.recordApproved("c1", pruning(true))
	if at := f.ApprovedAt("uid-berlin", ""); time.Since(at) > time.Minute {
		t.Errorf("the removal is approved at %s, want now", at)
	}
}

func TestApprovalCoversOnlyModulesWithoutAMandatoryVersion(t *testing.T) {
	template := func(name string, mandatory bool) (Key, *unstructured.Unstructured) {
		return Key{Kind: schema.GroupKind{Kind: "ModuleTemplate"}, Name: name},
			&unstructured.Unstructured{Object: map[string]any{
				"kind": "ModuleTemplate", "spec": map[string]any{"moduleName": "watchdog", "mandatory": mandatory},
			}}
	}
	for name, c := range map[string]struct{ newMandatory, approved bool }{
		"newer mandatory version stays": {true, false},
		"newer version is optional":     {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			older, olderTemplate := template("watchdog-1.0.0", true)
			newer, newerTemplate := template("watchdog-1.1.0", c.newMandatory)
			f := &Follower{}
			f.recordApproved("c1", Survey{
				Plan: Plan{Prune: []Key{older}}, allowed: true,
				Live: map[Key]*unstructured.Unstructured{older: olderTemplate, newer: newerTemplate},
			})
			f.current.Store(&bundle.Source{Commit: "c1"})
			if got := !f.ApprovedAt("", "watchdog").IsZero(); got != c.approved {
				t.Errorf("got approval %t, want %t", got, c.approved)
			}
		})
	}
}

// The shards must receive the approvals before the follower removes objects.
func TestReplicasReceiveApprovalsBeforeObjectRemoval(t *testing.T) {
	stopped := errors.New("the planner stops the other replicas")
	f := &Follower{Options: Options{
		ControlPlane: ControlPlane{Client: fake.NewClientBuilder().Build(), Namespace: "kcp-system"},
	}}
	f.Hold = func() (release func()) { return func() {} }
	f.Stop = func(context.Context) error {
		if f.Approvals().Commit != "c1" || f.ApprovedAt("uid-berlin", "").IsZero() {
			t.Errorf("got approvals %+v, want those of the commit", f.Approvals())
		}
		return stopped
	}
	f.recordApproved("c1", pruning(true))
	s := pruning(true)
	s.record = &record{}
	s.record.Data = map[string]string{}
	if err := f.step(t.Context(), &git.Repository{}, &git.Commit{Hash: "c1"}, s); !errors.Is(err, stopped) {
		t.Errorf("got error %v, want the error of Stop before any removal", err)
	}
}

// The follower must store the approvals before it removes objects. Otherwise, a crash during the removals would lose
// the approvals for objects that are already deleted.
func TestRestartKeepsApprovalsOfTheCommit(t *testing.T) {
	crash := errors.New("the process is killed before the first removal")
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: RecordName, UID: "1"}}
	api := fake.NewClientBuilder().WithObjects(stored).Build()
	start := func() *Follower {
		return &Follower{Options: Options{
			ControlPlane: ControlPlane{Client: api, Reader: api, Namespace: "kcp-system"},
			Hold:         func() (release func()) { return func() {} },
			Stop:         func(context.Context) error { return crash },
		}}
	}
	before := start()
	before.recordApproved("c1", pruning(true))
	s, err := pruning(true), error(nil)
	if s.record, err = before.readRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := before.step(t.Context(), &git.Repository{}, &git.Commit{Hash: "c1"}, s); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	for _, change := range []string{"", "status of a failed poll"} {
		after := start()
		if err := after.restoreState(t.Context()); err != nil {
			t.Fatal(err)
		}
		after.recordApproved("c1", Survey{}) // the objects are already deleted
		after.current.Store(&bundle.Source{Commit: "c1"})
		for _, module := range []string{"", "watchdog"} {
			at := after.ApprovedAt("uid-berlin", module)
			if at.IsZero() || !at.Equal(before.ApprovedAt("uid-berlin", module)) {
				t.Errorf("after a restart, removal of module %q is approved at %s, want the time before", module, at)
			}
		}
		r, err := after.readRecord(t.Context())
		if err == nil {
			err = start().write(t.Context(), r, map[string]string{fieldMessage: change})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestInvalidStoredApprovalsDoNotStopPublishing(t *testing.T) {
	stored := shard.Approvals{Commit: "c1", Kymas: map[types.UID]bool{"uid-berlin": true}}
	data, _, err := stored.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want bool
	}{"stored approvals": {data, true}, "truncated approvals": {data[:len(data)/2], false}, "no approvals": {nil, false}} {
		f, r := &Follower{}, &record{}
		r.BinaryData = map[string][]byte{fieldApproved: c.data}
		f.recallApproved(t.Context(), r)
		if got := f.approved.Load() != nil; got != c.want {
			t.Errorf("%s: got approvals %t, want %t", name, got, c.want)
		}
	}
}

func TestApprovalsLeaveRoomForTheInventory(t *testing.T) {
	many := &shard.Approvals{Commit: "c1", Kymas: map[types.UID]bool{}}
	for range 10_000 {
		many.Kymas[uuid.NewUUID()] = true
	}
	few := &shard.Approvals{Commit: "c1", Kymas: map[types.UID]bool{"uid-berlin": true}}
	for name, c := range map[string]struct {
		inventoryBytes int
		approvals      *shard.Approvals
		want           bool
	}{
		"few approvals and the largest inventory":  {maxInventoryBytes, few, true},
		"many approvals and a small inventory":     {100 << 10, many, true},
		"many approvals and the largest inventory": {maxInventoryBytes, many, false},
	} {
		r := &record{}
		r.Data = map[string]string{fieldInventory: strings.Repeat("x", c.inventoryBytes)}
		r.storeApproved(few)
		r.storeApproved(c.approvals)
		if got := len(r.BinaryData[fieldApproved]) > 0; got != c.want {
			t.Errorf("%s: got stored approvals %t, want %t", name, got, c.want)
		}
	}
}
