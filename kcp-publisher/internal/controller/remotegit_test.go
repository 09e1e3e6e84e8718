package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func kymaAt(name, uid, resourceVersion string) v1beta2.Kyma {
	return v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kcp-system", Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion,
	}}
}

func TestCacheIsCurrentOnceItContainsAllListedChanges(t *testing.T) {
	live := versions{list: "20", objects: map[string]version{"one": {"u1", "9"}, "two": {"u2", "12"}}}
	for name, c := range map[string]struct {
		cached  []v1beta2.Kyma
		current bool
	}{
		"cache equals the list": {[]v1beta2.Kyma{kymaAt("one", "u1", "9"), kymaAt("two", "u2", "12")}, true},
		"newer object":          {[]v1beta2.Kyma{kymaAt("one", "u1", "25"), kymaAt("two", "u2", "12")}, true},
		"older object":          {[]v1beta2.Kyma{kymaAt("one", "u1", "8"), kymaAt("two", "u2", "12")}, false},
		"missing object":        {[]v1beta2.Kyma{kymaAt("one", "u1", "9")}, false},
		"deleted object still cached": {
			[]v1beta2.Kyma{kymaAt("one", "u1", "9"), kymaAt("two", "u2", "12"), kymaAt("three", "u3", "7")}, false,
		},
		"object created after the list": {
			[]v1beta2.Kyma{kymaAt("one", "u1", "9"), kymaAt("two", "u2", "12"), kymaAt("three", "u3", "21")}, true,
		},
		"earlier object of the same name":       {[]v1beta2.Kyma{kymaAt("one", "u0", "8"), kymaAt("two", "u2", "12")}, false},
		"object recreated after the list":       {[]v1beta2.Kyma{kymaAt("one", "u9", "22"), kymaAt("two", "u2", "12")}, true},
		"empty cache":                           {nil, false},
		"only an object created after the list": {[]v1beta2.Kyma{kymaAt("three", "u3", "21")}, false},
	} {
		got, err := live.isUpToDate(&v1beta2.KymaList{Items: c.cached})
		if err != nil || got != c.current {
			t.Errorf("%s: got %t, error %v, want %t", name, got, err, c.current)
		}
	}
	if _, err := live.isUpToDate(&v1beta2.KymaList{Items: []v1beta2.Kyma{kymaAt("one", "u1", "x")}}); err == nil {
		t.Error("an invalid resource version is compared")
	}
}

// shardWithGit is a shard that follows the planner's commits.
type shardWithGit struct {
	*RemotePlanner
	kymas          *Kymas
	announced      shard.Announcement
	known          bool
	cached, direct client.Client
	approvals      []byte
	err            error
	requests       int // requests for a comparison with Git
}

func newShardWithGit(t *testing.T) *shardWithGit {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta2.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	build := func() client.Client { return fake.NewClientBuilder().WithScheme(scheme).Build() }
	s := &shardWithGit{known: true, cached: build(), direct: build()}
	s.RemotePlanner = &RemotePlanner{RemoteOptions: RemoteOptions{
		Announced: func() (shard.Announcement, bool) { return s.announced, s.known },
		Git: &RemoteGit{
			Approvals: func(context.Context) ([]byte, error) { return s.approvals, s.err },
			Compare:   func() { s.requests++ },
		},
	}}
	c := &Catalog{Changes: NewChanges()}
	c.snapshot.Store(snapshot)
	s.kymas = &Kymas{
		Options: Options{Git: s.RemotePlanner}, Client: s.cached, Catalog: c, Planner: s.RemotePlanner,
		Rollouts: &Rollouts{Catalog: c, remote: s.RemotePlanner},
		Watchers: &Watchers{Client: s.cached, isReadOnly: true},
	}
	s.kymas.Watchers.accepted.Store(&[]bundle.Watcher{})
	s.kymas.Rollouts.view.Store(&plan.View{Catalog: snapshot, State: "planned"})
	s.caches = &caches{
		cached: s.cached, direct: s.direct, namespace: "kcp-system", kymas: labels.Everything(),
		watchers: s.kymas.Watchers,
	}
	return s
}

// want checks whether the shard can publish bundles, and which commit its bundles name.
func (s *shardWithGit) want(t *testing.T, when string, resolves bool, commit string) {
	t.Helper()
	if got := s.kymas.currentView() != nil; got != resolves {
		t.Errorf("%s: the shard resolves Kymas: %t, want %t", when, got, resolves)
	}
	got := ""
	if source := s.Source(); source != nil {
		got = source.Commit
	}
	if got != commit {
		t.Errorf("%s: bundles name commit %q, want %q", when, got, commit)
	}
}

func (s *shardWithGit) catchUpTo(t *testing.T, want bool) {
	t.Helper()
	if got, err := s.catchUp(t.Context()); err != nil || got != want {
		t.Errorf("the caches are current: %t, error %v, want %t", got, err, want)
	}
}

func TestShardResolvesOnlyCompleteCommits(t *testing.T) {
	s := newShardWithGit(t)
	s.announced = shard.Announcement{State: "planned"}
	s.want(t, "planner without Git", false, "")
	s.catchUpTo(t, false)
	if s.HoldReason() == "" {
		t.Error("the reason is missing although the planner does not follow the repository")
	}
	s.announced.Commit = shard.Commit{Applied: 1, Hash: "c1"}
	s.want(t, "first commit before the comparison", false, "")
	s.catchUpTo(t, true)
	s.want(t, "first commit", true, "c1")
	source := s.Source()
	s.catchUpTo(t, true)
	if s.Source() != source {
		t.Error("the same commit has another pointer, which causes a reconcile of every Kyma")
	}
	s.announced.Commit.Hash = "c2"
	s.want(t, "commit without changes", true, "c2")

	s.announced = shard.Announcement{Held: "commit c3 is applied in part", Commit: s.announced.Commit}
	s.want(t, "partially applied commit", false, "")
	if s.HoldReason() != "commit c3 is applied in part" || s.heldFor() == 0 {
		t.Errorf("got reason %q for %s, want the planner's reason", s.HoldReason(), s.heldFor())
	}
	one := kymaAt("one", "u1", "")
	if err := s.direct.Create(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	s.announced = shard.Announcement{State: "planned", Commit: shard.Commit{Applied: 2, Hash: "c3"}}
	s.catchUpTo(t, false)
	s.want(t, "cache without a Kyma of the commit", false, "")
	one = kymaAt("one", "u1", "")
	if err := s.cached.Create(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	s.catchUpTo(t, true)
	s.want(t, "complete commit", true, "c3")
	s.known = false
	s.want(t, "outdated announcement", false, "")
	if s.heldFor() != 0 {
		t.Error("an outdated announcement counts as a hold")
	}
}

func TestShardReceivesApprovedRemovalsBeforeResolvingACommit(t *testing.T) {
	s := newShardWithGit(t)
	at := time.Unix(7, 0)
	data, digest, err := shard.Approvals{Commit: "c1", At: at, Kymas: map[types.UID]bool{"u1": true}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.announced = shard.Announcement{State: "planned", Commit: shard.Commit{Applied: 1, Hash: "c1", Approved: digest}}
	s.err = errors.New("refused")
	if current, err := s.catchUp(t.Context()); current || err == nil {
		t.Errorf("unreadable approvals: current %t, error %v", current, err)
	}
	if s.requests != 0 {
		t.Error("a failed read is not a reason to store the approvals again")
	}
	s.err = nil
	if current, err := s.catchUp(t.Context()); current || err == nil {
		t.Errorf("approvals that do not exist: current %t, error %v", current, err)
	}
	if s.requests != 1 {
		t.Errorf("lost approvals caused %d requests, want 1", s.requests)
	}
	s.want(t, "without the approvals", false, "")
	s.approvals = data
	s.catchUpTo(t, true)
	s.want(t, "with the approvals", true, "c1")
	if got := s.ApprovedAt("u1", ""); !got.Equal(at) || !s.ApprovedAt("u2", "").IsZero() {
		t.Errorf("the removal is approved at %s, want %s and no other approval", got, at)
	}
	s.announced.Commit = shard.Commit{Applied: 2, Hash: "c2"}
	s.catchUpTo(t, true)
	if !s.ApprovedAt("u1", "").IsZero() {
		t.Error("the approval is valid for a later commit")
	}
}

func TestKymaChangedDuringReconcileIsNotResolved(t *testing.T) {
	s := newShardWithGit(t)
	one := kymaAt("one", "u1", "")
	if err := s.cached.Create(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	before := one.DeepCopy()
	s.announced = shard.Announcement{State: "planned", Commit: shard.Commit{Applied: 1, Hash: "c1"}}
	live := kymaAt("one", "u1", "")
	if err := s.direct.Create(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	s.catchUpTo(t, true)
	if !s.kymas.stillCurrent(t.Context(), before, s.Source()) {
		t.Error("an unchanged Kyma is not current")
	}
	if s.kymas.stillCurrent(t.Context(), before, &bundle.Source{Commit: "c0"}) {
		t.Error("a Kyma with another commit is current")
	}
	one.Spec.Channel = "fast"
	if err := s.cached.Update(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	if s.kymas.stillCurrent(t.Context(), before, s.Source()) {
		t.Error("a Kyma that changed is current")
	}
}
