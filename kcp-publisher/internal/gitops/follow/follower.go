package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// Options configures a Follower.
type Options struct {
	ControlPlane
	Events events.EventRecorder
	// Open returns the repository with the current credentials and accepted signers.
	Open func() (*git.Repository, error)
	// Hold stops publishing until release is called.
	Hold func() (release func())
	// Stop waits until the other replicas have stopped publishing, too. It is nil if no other replica publishes.
	Stop func(ctx context.Context) error
	// MayWrite returns an error if this process does not hold the lease. Nil always allows writes.
	MayWrite func() error
	Interval time.Duration
	// AllowRewind accepts commits that do not follow the last applied commit. See git.Repository.CheckSuccessor.
	AllowRewind bool
}

// Follower polls one branch in a Git repository and applies its newest commit. Only the leader runs it.
type Follower struct {
	Options

	current  atomic.Pointer[bundle.Source]
	approved atomic.Pointer[shard.Approvals]
	// compared is the return value of ComparedAt, or nil before the first comparison.
	compared atomic.Pointer[time.Time]
	// currentHoldReason is the return value of HoldReason.
	currentHoldReason atomic.Pointer[string]
	// edited is true after another client changed an object from a commit.
	edited atomic.Bool

	// Only Start's goroutine uses the fields below.
	release     func()
	partial     string // the partially applied commit
	hasRead     bool   // true once this process has read the branch
	lastCommit  git.AppliedCommit
	appliedHash string    // hash of the branch's newest commit when it was last applied
	checked     time.Time // when the control plane was last compared with the branch
	lastError   string
}

// New returns a Follower that stops publishing until Start has read the state of the current commit. The Follower
// uses the cache to detect other clients' changes to a commit's objects. kinds must contain only kinds
// that the controllers already watch. Call New before the cache starts.
func New(ctx context.Context, options Options, objects cache.Cache, kinds ...client.Object) (*Follower, error) {
	f := &Follower{Options: options, release: options.Hold()}
	if err := f.watch(ctx, objects, kinds); err != nil {
		return nil, err
	}
	return f, nil
}

// compareInterval is the maximum time between two full comparisons. A full comparison finds differences that no watch
// reported.
const compareInterval = 10 * time.Minute

// Source returns the current commit, or nil before it is known.
func (f *Follower) Source() *bundle.Source { return f.current.Load() }

// ComparedAt returns the start time of the last Poll that found the newest commit completely applied, or zero.
func (f *Follower) ComparedAt() time.Time {
	if at := f.compared.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// HoldReason returns the reason why publishing is stopped, or "".
func (f *Follower) HoldReason() string {
	if why := f.currentHoldReason.Load(); why != nil {
		return *why
	}
	return ""
}

// RequestComparison makes the next Poll compare the control plane with the branch's newest commit.
func (f *Follower) RequestComparison() { f.edited.Store(true) }

// Start polls the branch until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("git"))
	f.setHold(true) // a commit can be partially applied when the context ends
	for {
		// After a restart, complete the commit before publishing continues.
		var err error
		if f.release != nil {
			err = f.restoreState(ctx)
		}
		if err == nil {
			err = f.Poll(ctx)
		}
		f.report(ctx, err)
		if !pause.Sleep(ctx, jitter.JitteredIntervalDuration(f.Interval)) {
			return nil
		}
	}
}

func (f *Follower) setHold(wanted bool) {
	before := f.release
	f.release = nil
	if wanted {
		f.release = f.Hold() // hold again before the previous hold ends
	}
	if before != nil {
		before()
	}
	why := ""
	switch {
	case !wanted:
	case f.partial != "":
		why = "commit " + f.partial + " is not completely applied yet"
	default:
		why = "the branch has not been compared with the control plane yet"
	}
	f.currentHoldReason.Store(&why)
	held.Set(map[bool]float64{true: 1}[wanted])
}

// restoreState restores the state of an earlier process from the record. Publishing is stopped until the record can be
// read.
func (f *Follower) restoreState(ctx context.Context) error {
	r, err := f.readRecord(ctx)
	if err != nil {
		return err
	}
	if f.current.Load() == nil && r.Data[fieldCommit] != "" {
		f.current.Store(&bundle.Source{Repository: r.Data[fieldRepository], Commit: r.Data[fieldCommit]})
	}
	f.holdIfPartial(r)
	f.recallApproved(ctx, r)
	return nil
}

// holdIfPartial stops publishing while a commit is partially applied. If another client emptied the record,
// holdIfPartial uses the commit that this process remembers.
func (f *Follower) holdIfPartial(r *record) { f.setPartial(cmp.Or(r.applyingCommit(), f.partial)) }

// setPartial stops publishing while a commit is partially applied. If the commit is empty, setPartial resumes
// publishing, unless this process has not read the branch yet.
func (f *Follower) setPartial(commit string) {
	f.partial = commit
	if holding, wanted := f.release != nil, commit != "" || !f.hasRead; holding != wanted {
		f.setHold(wanted)
	}
}

// Poll applies the branch's newest commit if it was not applied yet, if another client changed its objects, or if
// compareInterval has passed.
func (f *Follower) Poll(ctx context.Context) error {
	began := time.Now()
	done, err := f.poll(ctx)
	if done {
		f.compared.Store(&began)
	}
	f.endStartHold(err)
	return err
}

// endStartHold resumes publishing after the first Poll that read a commit.
func (f *Follower) endStartHold(err error) {
	if !f.hasRead && (err == nil || isRefusal(err)) {
		f.hasRead = true
		f.setPartial(f.partial)
	}
}

// poll implements Poll. done is true if poll compared the control plane with the newest commit, and the commit is
// completely applied.
func (f *Follower) poll(ctx context.Context) (done bool, err error) {
	repository, err := f.Open()
	if err != nil {
		return false, newFailure(v1beta2.ReasonFetchFailed, err)
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return false, newFailure(v1beta2.ReasonFetchFailed, err)
	}
	if edited := f.edited.Swap(false); head == f.appliedHash && !edited && time.Since(f.checked) < compareInterval {
		return false, nil
	}
	f.appliedHash = ""
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return false, newFailure(v1beta2.ReasonCommitRefused, err)
	}
	if err := f.checkSuccessor(ctx, repository, commit); err != nil {
		return false, newFailure(v1beta2.ReasonFetchFailed, err)
	}
	if err := f.apply(ctx, repository, commit, objects); err != nil {
		return false,
			newFailure(v1beta2.ReasonCommitApplyFailed, fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err))
	}
	f.appliedHash, f.checked = commit.Head, time.Now()
	return true, nil
}

// isRefusal reports whether a poll read the newest commit, but the commit was refused or overwritten.
func isRefusal(err error) bool {
	var known *failure
	return errors.As(err, &known) && slices.Contains([]string{
		v1beta2.ReasonCommitRefused, v1beta2.ReasonPruneNotAllowed, v1beta2.ReasonRewindNotAllowed,
		v1beta2.ReasonCommitOverwritten,
	}, known.reason)
}

// checkSuccessor returns an error for a commit that does not follow the last applied commit.
func (f *Follower) checkSuccessor(ctx context.Context, repository *git.Repository, commit *git.Commit) error {
	r, err := f.readRecord(ctx)
	if err != nil || f.AllowRewind {
		return err
	}
	last := r.lastApplied()
	if last.Commit == "" {
		last = f.lastCommit // another client deleted the record
	}
	err = repository.CheckSuccessor(ctx, commit, last)
	if rewind := new(git.RewindError); errors.As(err, &rewind) {
		return &failure{v1beta2.ReasonRewindNotAllowed, err}
	}
	return err
}

type failure struct {
	reason string
	error
}

func (f *failure) Unwrap() error { return f.error }

// newFailure adds a condition reason to an error. If the error already has a reason, it keeps that reason.
func newFailure(reason string, err error) error {
	var known *failure
	var fetch *git.FetchError
	switch {
	case errors.As(err, &known):
		reason = known.reason
	case errors.As(err, &fetch):
		reason = map[git.Cause]string{
			git.CredentialsRefused: v1beta2.ReasonAuthenticationFailed,
			git.HostKeyRefused:     v1beta2.ReasonHostKeyRefused,
		}[fetch.Cause]
		if reason == "" {
			reason = v1beta2.ReasonFetchFailed
		}
	}
	return &failure{reason, err}
}

// report records a poll's result in metrics. For a new failure, it also updates the record and emits an Event.
func (f *Follower) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		ready.Set(1)
		if f.lastError != "" {
			ctrl.LoggerFrom(ctx).Info("repository sync recovered")
		}
		f.lastError = ""
		return
	}
	ready.Set(0)
	failures.Inc()
	f.checked = time.Time{} // the next successful poll must update the record
	text := err.Error()
	switch {
	case f.partial != "":
		text = fmt.Sprintf("publishing is held until commit %s is completely applied: %s", f.partial, text)
	case !f.hasRead:
		text = "publishing is held until the branch is compared with the control plane: " + text
	}
	if text == f.lastError {
		return
	}
	f.lastError = text
	ctrl.LoggerFrom(ctx).Error(err, "failed to follow the repository; nothing is removed", "partial", f.partial)
	reason := v1beta2.ReasonCommitApplyFailed // the default reason
	var known *failure
	if errors.As(err, &known) {
		reason = known.reason
	}
	r, readErr := f.readRecord(ctx)
	if readErr == nil {
		readErr = f.write(ctx, r, f.failureFields(reason, text, waitingReason(err), r))
	}
	if readErr != nil {
		f.lastError = "" // report the failure again at the next poll
		return
	}
	f.Events.Eventf(&r.ConfigMap, nil, corev1.EventTypeWarning, reason, "Follow", "%s",
		bundle.Bounded(text, bundle.MaxNoteBytes))
}

// maxMessageBytes is the maximum size of the recorded message in bytes. The ConfigMap must also have room for the
// largest inventory.
const maxMessageBytes = 16 << 10

// failureFields returns the fields of the record after a failed poll. They include the partially applied commit,
// because another client may have removed it from the record.
func (f *Follower) failureFields(reason, text, waiting string, r *record) map[string]string {
	return map[string]string{
		fieldReady: string(metav1.ConditionFalse), fieldReason: reason,
		fieldMessage:  bundle.Bounded(text, maxMessageBytes),
		fieldApplying: cmp.Or(r.applyingCommit(), f.partial), fieldHeld: map[bool]string{false: "true"}[f.hasRead],
		fieldWaiting: waiting,
	}
}

func waitingReason(err error) string {
	var held *PruneError
	if errors.As(err, &held) {
		return held.Commit
	}
	return ""
}
