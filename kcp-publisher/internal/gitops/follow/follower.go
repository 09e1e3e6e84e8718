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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// Follower polls one branch of a Git repository and applies its newest commit. The manager runs it only on the leader.
type Follower struct {
	Client client.Client
	// Reader reads from the API server, because the manager's cache does not contain ConfigMaps and unstructured
	// objects.
	Reader    client.Reader
	Events    events.EventRecorder
	Namespace string
	// Open returns the repository with the current credentials and accepted signers.
	Open func() (*git.Repository, error)
	// Hold stops the publishing of new bundles until release is called.
	Hold func() (release func())
	// MayWrite returns an error if this process must not write because another process holds the lease. If MayWrite is
	// nil, writes are always allowed.
	MayWrite func() error
	// Interval is the polling interval of the branch.
	Interval time.Duration
	// Pruning limits the deletions of a commit.
	Pruning Pruning
	// AllowRewind accepts commits that do not descend from the last applied commit.
	AllowRewind bool

	current atomic.Pointer[bundle.Source]
	// approved contains the removals that an operator approved together with a commit.
	approved atomic.Pointer[approvedRemovals]
	// compared is the start time of the last Poll that found the branch's newest commit applied.
	compared atomic.Pointer[time.Time]
	// holding is the reason why publishing is held, or empty if publishing is not held.
	holding atomic.Pointer[string]
	// edited is set when another client changed or deleted an object of a commit.
	edited atomic.Bool

	// Only the goroutine of Start uses the fields below. Before the start, HoldUntilStarted uses them.
	release   func() // releases the hold; nil if publishing is not held
	partial   string // the commit that is applied in part, according to the record
	begun     bool   // whether this process has read the branch; before that, the control plane can be outdated
	last      appliedCommit
	done      string    // the branch's hash when it was last applied
	checked   time.Time // when the control plane was last compared with the branch
	lastError string    // the last reported failure
}

// compareInterval is the interval of full comparisons, which find differences that no watch reported.
const compareInterval = 10 * time.Minute

// Source returns the commit that is applied or being applied, or nil before it is known.
func (f *Follower) Source() *bundle.Source { return f.current.Load() }

// Compared returns the start time of the last Poll that found the branch's newest commit applied, or zero.
func (f *Follower) Compared() time.Time {
	if at := f.compared.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Holding returns the reason why publishing is held, or an empty string.
func (f *Follower) Holding() string {
	if why := f.holding.Load(); why != nil {
		return *why
	}
	return ""
}

// Compare makes the next Poll compare the control plane with the branch's newest commit.
func (f *Follower) Compare() { f.edited.Store(true) }

// HoldUntilStarted holds publishing until Start knows whether a commit is applied in part.
func (f *Follower) HoldUntilStarted() { f.release = f.Hold() }

// Start polls the branch until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("git"))
	f.hold(true) // not released when the context ends, because a commit can be applied in part
	for {
		// A process that stopped in the middle of a commit completes it before anything is published.
		var err error
		if f.release != nil {
			err = f.recall(ctx)
		}
		if err == nil {
			err = f.Poll(ctx)
		}
		f.report(ctx, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter.JitteredIntervalDuration(f.Interval)):
		}
	}
}

// hold holds or releases publishing, depending on wanted.
func (f *Follower) hold(wanted bool) {
	before := f.release
	f.release = nil
	if wanted {
		f.release = f.Hold() // take the new hold first, so that no bundle is published in between
	}
	if before != nil {
		before()
	}
	why := ""
	switch {
	case !wanted:
	case f.partial != "":
		why = "commit " + f.partial + " is applied in part"
	default:
		why = "the branch has not been compared with the control plane yet"
	}
	f.holding.Store(&why)
	held.Set(map[bool]float64{true: 1}[wanted])
}

// recall restores the state of an earlier poll or process from the record. Publishing is held until the record can be
// read.
func (f *Follower) recall(ctx context.Context) error {
	r, err := f.readRecord(ctx)
	if err != nil {
		return err
	}
	if f.current.Load() == nil && r.Data[fieldCommit] != "" {
		f.current.Store(&bundle.Source{Repository: r.Data[fieldRepository], Commit: r.Data[fieldCommit]})
	}
	f.holdIfPartial(r)
	return nil
}

// holdIfPartial holds publishing if the record contains a commit that is applied in part. If another client deletes or
// empties the record, publishing is still held, because this process remembers the commit until a whole commit is
// applied.
func (f *Follower) holdIfPartial(r *record) { f.setPartial(cmp.Or(r.applying(), f.partial)) }

// setPartial records the commit that is applied in part, and holds or releases publishing accordingly. An empty commit
// means that no commit is applied in part.
func (f *Follower) setPartial(commit string) {
	f.partial = commit
	if holding, wanted := f.release != nil, commit != "" || !f.begun; holding != wanted {
		f.hold(wanted)
	}
}

// Poll applies the newest commit if it is new, if another client changed its objects, or if compareInterval has passed.
// Publishing, which is held from the start of the process, is released by the first Poll that reads a commit: the
// commit was then either applied, or refused without a change to the control plane.
func (f *Follower) Poll(ctx context.Context) error {
	began := time.Now()
	done, err := f.poll(ctx)
	if done {
		f.compared.Store(&began)
	}
	f.endStartHold(err)
	return err
}

// endStartHold releases publishing after the first Poll that read a commit.
func (f *Follower) endStartHold(err error) {
	if !f.begun && (err == nil || isRefusal(err)) {
		f.begun = true
		f.setPartial(f.partial)
	}
}

// poll reports whether the branch's newest commit was compared with the control plane and is applied.
func (f *Follower) poll(ctx context.Context) (done bool, err error) {
	repository, err := f.Open()
	if err != nil {
		return false, failed(v1beta2.ReasonFetchFailed, err)
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return false, failed(v1beta2.ReasonFetchFailed, err)
	}
	if edited := f.edited.Swap(false); head == f.done && !edited && time.Since(f.checked) < compareInterval {
		return false, nil
	}
	f.done = ""
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return false, failed(v1beta2.ReasonCommitRefused, err)
	}
	if err := f.follows(ctx, repository, commit); err != nil {
		return false, failed(v1beta2.ReasonFetchFailed, err)
	}
	if err := f.apply(ctx, repository, commit, objects); err != nil {
		return false,
			failed(v1beta2.ReasonCommitApplyFailed, fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err))
	}
	f.done, f.checked = commit.Head, time.Now()
	return true, nil
}

// isRefusal reports whether a commit was read and refused, so no part of it is applied.
func isRefusal(err error) bool {
	var known *failure
	return errors.As(err, &known) && slices.Contains([]string{
		v1beta2.ReasonCommitRefused, v1beta2.ReasonPruneNotAllowed, v1beta2.ReasonRewindNotAllowed,
		v1beta2.ReasonCommitOverwritten,
	}, known.reason)
}

// follows returns an error for a commit that does not descend from the last applied commit of the same branch. Without
// this check, the owner of the Git server could serve an old signed commit, or a signed commit of a branch that lacks
// the last applied commit.
func (f *Follower) follows(ctx context.Context, repository *git.Repository, commit *git.Commit) error {
	r, err := f.readRecord(ctx)
	if err != nil {
		return err
	}
	last := r.lastOf(repository)
	if known := f.last; last == "" && known.repository == repository.URL && known.revision == repository.Revision() {
		last = known.commit // the record was deleted, but this process knows the commit
	}
	if last == "" || last == commit.Hash || f.AllowRewind {
		return nil
	}
	descends, err := repository.Descends(ctx, commit, last)
	if err != nil {
		return fmt.Errorf("check whether commit %s of %s descends from commit %s: %w", commit.Hash, repository.URL,
			last, err)
	}
	if descends {
		return nil
	}
	return &failure{
		v1beta2.ReasonRewindNotAllowed,
		fmt.Errorf("commit %s of %s does not descend from the last applied commit %s: "+
			"no part of it is applied; add a commit on top of the last one, or allow this once with --allow-rewind",
			commit.Hash, repository.URL, last),
	}
}

// appliedCommit is a completely applied commit with its branch.
type appliedCommit struct{ repository, revision, commit string }

// failure is an error with its reason.
type failure struct {
	reason string
	error
}

func (f *failure) Unwrap() error { return f.error }

// failed adds a condition reason to an error. A reason that the error already has takes precedence.
func failed(reason string, err error) error {
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

// report reports the result of a poll in metrics. It reports a new failure in the record, an Event and the log as well.
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
	f.checked = time.Time{} // the next successful poll is then a full one and updates the record
	text := err.Error()
	switch {
	case f.partial != "":
		text = fmt.Sprintf("publishing is held while commit %s is applied in part: %s", f.partial, text)
	case !f.begun:
		text = "publishing is held until the branch is compared with the control plane: " + text
	}
	if text == f.lastError {
		return
	}
	f.lastError = text
	ctrl.LoggerFrom(ctx).Error(err, "failed to follow the repository; nothing is removed", "partial", f.partial)
	reason := v1beta2.ReasonCommitApplyFailed // the default, for example if the record cannot be read
	var known *failure
	if errors.As(err, &known) {
		reason = known.reason
	}
	r, readErr := f.readRecord(ctx)
	if readErr == nil {
		readErr = f.write(ctx, r, f.failureFields(reason, text, waiting(err), r))
	}
	if readErr != nil {
		f.lastError = "" // report the failure again at the next poll
		return
	}
	f.Events.Eventf(&r.ConfigMap, nil, corev1.EventTypeWarning, reason, "Follow", "%s",
		bundle.Bounded(text, bundle.MaxNoteBytes))
}

// maxMessageBytes limits the message in the record, so the largest inventory also fits into the ConfigMap.
const maxMessageBytes = 16 << 10

// failureFields returns the record's fields for a failure. They include the commit that is applied in part, which the
// next leader needs, in case another client removed it from the record.
func (f *Follower) failureFields(reason, text, waiting string, r *record) map[string]string {
	return map[string]string{
		fieldReady: string(metav1.ConditionFalse), fieldReason: reason,
		fieldMessage:  bundle.Bounded(text, maxMessageBytes),
		fieldApplying: cmp.Or(r.applying(), f.partial), fieldHeld: map[bool]string{false: "true"}[f.begun],
		fieldWaiting: waiting,
	}
}

// waiting returns the commit that waits for an approval, or an empty string for other failures.
func waiting(err error) string {
	var held *PruneError
	if errors.As(err, &held) {
		return held.Commit
	}
	return ""
}
