package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// Follower follows one branch. It is run by a manager, on the leader alone.
type Follower struct {
	Client client.Client
	// Reader reads past the manager's cache, which holds neither ConfigMaps nor unstructured objects.
	Reader    client.Reader
	Events    events.EventRecorder
	Namespace string
	// Open gives the repository, with credentials and signers as they are now.
	Open func() (*git.Repository, error)
	// Hold keeps anything from being published until it is released.
	Hold func() (release func())
	// MayWrite returns why this process may not change anything now: another one has the lease. Nil lets it write.
	MayWrite func() error
	// Interval is how often the branch is looked at.
	Interval time.Duration
	// Pruning says what a commit may delete.
	Pruning Pruning

	current atomic.Pointer[bundle.Source]
	// edited is set when an object that a commit brought was changed or deleted by somebody.
	edited atomic.Bool

	// Only the goroutine of Start uses what follows, HoldUntilStarted before it.
	release func()    // of the hold, nil when nothing is held
	partial string    // the commit that is applied in part, as the record says
	done    string    // what the branch named when it was last applied
	checked time.Time // when KCP was last compared with it
	told    string    // the failure that was told last
}

// compareAgain is how long a difference between KCP and a commit that was applied may go unnoticed that no watch tells
// of.
const compareAgain = 10 * time.Minute

// Source is the commit that KCP has, or is about to have; nil before it is known.
func (f *Follower) Source() *bundle.Source { return f.current.Load() }

// HoldUntilStarted keeps anything from being published before Start knows whether a commit is applied in part.
func (f *Follower) HoldUntilStarted() { f.release = f.Hold() }

// Start looks at the branch until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("git"))
	f.hold(true) // and not released at the end, which may come in the middle of a commit
	for {
		// Whoever was ended in the middle of a commit goes on with it before anything is published.
		var err error
		if f.release != nil {
			err = f.recall(ctx)
		}
		if err == nil {
			err = f.Look(ctx)
		}
		f.tell(ctx, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter.JitteredIntervalDuration(f.Interval)):
		}
	}
}

// hold keeps anything from being published, or ends that.
func (f *Follower) hold(wanted bool) {
	before := f.release
	f.release = nil
	if wanted {
		f.release = f.Hold() // before the other is released: in between something would be published
	}
	if before != nil {
		before()
	}
	held.Set(map[bool]float64{true: 1}[wanted])
}

// recall reads what an earlier look, or an earlier process, noted. Nothing is published until that can be read.
func (f *Follower) recall(ctx context.Context) error {
	r, err := f.readRecord(ctx)
	if err != nil {
		return err
	}
	if f.current.Load() == nil && r.Data[fieldCommit] != "" {
		f.current.Store(&bundle.Source{Repository: r.Data[fieldRepository], Commit: r.Data[fieldCommit]})
	}
	f.noteRecord(r)
	return nil
}

// noteRecord holds what is published while the record names a commit that is applied in part. A record that somebody
// deleted or emptied releases nothing: this process knows better, until it has finished a commit.
func (f *Follower) noteRecord(r *record) { f.isPartial(cmp.Or(r.applying(), f.partial)) }

// isPartial notes which commit is applied in part, empty for none, and holds what is published accordingly.
func (f *Follower) isPartial(commit string) {
	f.partial = commit
	if holding, wanted := f.release != nil, commit != ""; holding != wanted {
		f.hold(wanted)
	}
}

// Look applies the newest commit if it is new, if somebody changed its objects, or if KCP was not compared with it for
// a while.
func (f *Follower) Look(ctx context.Context) error {
	repository, err := f.Open()
	if err != nil {
		return failed(v1beta2.ReasonFetchFailed, err)
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return failed(v1beta2.ReasonFetchFailed, err)
	}
	if edited := f.edited.Swap(false); head == f.done && !edited && time.Since(f.checked) < compareAgain {
		return nil
	}
	f.done = ""
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return failed(v1beta2.ReasonCommitRefused, err)
	}
	if err := f.apply(ctx, repository, commit, objects); err != nil {
		return failed(v1beta2.ReasonCommitApplyFailed, fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err))
	}
	f.done, f.checked = commit.Head, time.Now()
	return nil
}

// failure is an error with the reason that users see.
type failure struct {
	reason string
	error
}

func (f *failure) Unwrap() error { return f.error }

// failed returns an error with a reason, or with the one that it has already.
func failed(reason string, err error) error {
	var known *failure
	var fetch *git.FetchError
	switch {
	case errors.As(err, &known):
		reason = known.reason
	case errors.As(err, &fetch):
		reason = map[git.Cause]string{
			git.CredentialsRefused: v1beta2.ReasonAuthenticationFailed, git.HostKeyRefused: v1beta2.ReasonHostKeyRefused,
		}[fetch.Cause]
		if reason == "" {
			reason = v1beta2.ReasonFetchFailed
		}
	}
	return &failure{reason, err}
}

// tell says in one place how a look went: metrics always, record, Event and log when it is news.
func (f *Follower) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		ready.Set(1)
		if f.told != "" {
			ctrl.LoggerFrom(ctx).Info("repository sync recovered")
		}
		f.told = ""
		return
	}
	ready.Set(0)
	failures.Inc()
	f.checked = time.Time{} // once it recovered, the record has to say so
	text := err.Error()
	if f.partial != "" {
		text = fmt.Sprintf("nothing is published while commit %s is applied in part: %s", f.partial, text)
	}
	if text == f.told {
		return
	}
	f.told = text
	ctrl.LoggerFrom(ctx).Error(err, "the repository could not be followed, nothing is removed", "partial", f.partial)
	reason := v1beta2.ReasonCommitApplyFailed // such as when the record cannot be read
	var known *failure
	if errors.As(err, &known) {
		reason = known.reason
	}
	r, readErr := f.readRecord(ctx)
	if readErr == nil {
		readErr = f.write(ctx, r, f.failureFields(reason, text, r))
	}
	if readErr != nil {
		f.told = "" // to be told again, when the API server listens
		return
	}
	f.Events.Eventf(&r.ConfigMap, nil, corev1.EventTypeWarning, reason, "Follow", "%s", bundle.Bounded(text, bundle.MaxNoteBytes))
}

// maxMessageBytes leaves room in the ConfigMap for the largest inventory: a message that does not fit would not be seen
// at all.
const maxMessageBytes = 16 << 10

// failureFields is what the record says of a failure. Whoever took the commit that is applied in part out of it finds
// it there again, so that the next leader does.
func (f *Follower) failureFields(reason, text string, r *record) map[string]string {
	return map[string]string{
		fieldReady: string(metav1.ConditionFalse), fieldReason: reason, fieldMessage: bundle.Bounded(text, maxMessageBytes),
		fieldApplying: cmp.Or(r.applying(), f.partial),
	}
}
