package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// AllowRewind accepts commits that do not descend from the last applied one.
	AllowRewind bool

	current atomic.Pointer[bundle.Source]
	// allowed are the removals that an operator allowed together with a commit.
	allowed sync.Map
	// compared is when the last Look began that found the branch's newest commit applied.
	compared atomic.Pointer[time.Time]
	// holding is why nothing is published, empty while bundles are published.
	holding atomic.Pointer[string]
	// edited is set when an object that a commit brought was changed or deleted by somebody.
	edited atomic.Bool

	// Only the goroutine of Start uses what follows, HoldUntilStarted before it.
	release func() // of the hold, nil when nothing is held
	partial string // the commit that is applied in part, as the record says
	begun   bool   // whether this process has read the branch: before that, the control plane may be outdated
	last    appliedCommit
	done    string    // what the branch named when it was last applied
	checked time.Time // when KCP was last compared with it
	told    string    // the failure that was told last
}

// compareAgain is how long a difference between KCP and a commit that was applied may go unnoticed that no watch tells
// of.
const compareAgain = 10 * time.Minute

// Source is the commit that KCP has, or is about to have; nil before it is known.
func (f *Follower) Source() *bundle.Source { return f.current.Load() }

// Compared returns when a Look began that found the branch's newest commit applied, zero before the first.
func (f *Follower) Compared() time.Time {
	if at := f.compared.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Holding returns why nothing is published, empty while bundles are published.
func (f *Follower) Holding() string {
	if why := f.holding.Load(); why != nil {
		return *why
	}
	return ""
}

// allowedRemoval is the removal of a mandatory module, or of all modules of a deleted Kyma.
type allowedRemoval struct{ kyma, module string }

// noteAllowed records what an operator allowed with a commit, so that the same removals need no second approval.
func (f *Follower) noteAllowed(s Survey) {
	if !s.allowed {
		return
	}
	for _, key := range s.Plan.Prune {
		switch object := s.Live[key]; {
		case key.Kind.Kind == kindKyma:
			f.allowed.Store(allowedRemoval{kyma: key.Name}, true)
		case isMandatory(object):
			module, _, _ := unstructured.NestedString(object.Object, "spec", "moduleName")
			f.allowed.Store(allowedRemoval{module: cmp.Or(module, key.Name)}, true)
		}
	}
}

// Allowed reports whether an operator allowed the removal of a module, or of all modules of a Kyma for the empty name,
// together with a commit.
func (f *Follower) Allowed(kyma, module string) bool {
	removal := allowedRemoval{module: module}
	if module == "" {
		removal.kyma = kyma
	}
	_, allowed := f.allowed.Load(removal)
	return allowed
}

// Compare makes the next Look compare the control plane with the branch's newest commit.
func (f *Follower) Compare() { f.edited.Store(true) }

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
	why := ""
	switch {
	case !wanted:
	case f.partial != "":
		why = "commit " + f.partial + " is applied in part"
	default:
		why = "the branch was not compared with the control plane yet"
	}
	f.holding.Store(&why)
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
	if holding, wanted := f.release != nil, commit != "" || !f.begun; holding != wanted {
		f.hold(wanted)
	}
}

// Look applies the newest commit if it is new, if somebody changed its objects, or if KCP was not compared with it for
// a while. The first Look of a process that reads a commit ends the hold of its start: either the commit is applied, or
// it is refused and the control plane stays as it is.
func (f *Follower) Look(ctx context.Context) error {
	began := time.Now()
	done, err := f.look(ctx)
	if done {
		f.compared.Store(&began)
	}
	f.ended(err)
	return err
}

// ended ends the hold of the start after a Look that read a commit.
func (f *Follower) ended(err error) {
	if !f.begun && (err == nil || isRefusal(err)) {
		f.begun = true
		f.isPartial(f.partial)
	}
}

// look reports whether the branch's newest commit was compared with the control plane and is applied.
func (f *Follower) look(ctx context.Context) (done bool, err error) {
	repository, err := f.Open()
	if err != nil {
		return false, failed(v1beta2.ReasonFetchFailed, err)
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return false, failed(v1beta2.ReasonFetchFailed, err)
	}
	if edited := f.edited.Swap(false); head == f.done && !edited && time.Since(f.checked) < compareAgain {
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
		return false, failed(
			v1beta2.ReasonCommitApplyFailed,
			fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err),
		)
	}
	f.done, f.checked = commit.Head, time.Now()
	return true, nil
}

// isRefusal reports whether a commit was read and refused, so that nothing of it is applied.
func isRefusal(err error) bool {
	var known *failure
	return errors.As(err, &known) && slices.Contains([]string{
		v1beta2.ReasonCommitRefused, v1beta2.ReasonPruneNotAllowed, v1beta2.ReasonRewindNotAllowed, v1beta2.ReasonCommitOverwritten,
	}, known.reason)
}

// follows returns an error for a commit that does not descend from the last applied one of the same branch. Without this
// check, the owner of the Git server could serve an old signed commit, or one that a signer made for something else.
func (f *Follower) follows(ctx context.Context, repository *git.Repository, commit *git.Commit) error {
	r, err := f.readRecord(ctx)
	if err != nil {
		return err
	}
	last := r.lastOf(repository)
	if known := f.last; last == "" && known.repository == repository.URL && known.revision == repository.Revision() {
		last = known.commit // the record was deleted
	}
	if last == "" || last == commit.Hash || f.AllowRewind {
		return nil
	}
	descends, err := repository.Descends(ctx, commit, last)
	if err != nil {
		return fmt.Errorf(
			"commit %s of %s: check that it descends from commit %s: %w",
			commit.Hash,
			repository.URL,
			last,
			err,
		)
	}
	if descends {
		return nil
	}
	return &failure{
		v1beta2.ReasonRewindNotAllowed,
		fmt.Errorf("commit %s of %s does not descend from commit %s, which was applied before: "+
			"nothing of it is applied; add a commit on top of that one, or allow this once with --allow-rewind", commit.Hash, repository.URL, last),
	}
}

// appliedCommit is a commit that was applied as a whole, with its branch.
type appliedCommit struct{ repository, revision, commit string }

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
	switch {
	case f.partial != "":
		text = fmt.Sprintf("nothing is published while commit %s is applied in part: %s", f.partial, text)
	case !f.begun:
		text = "nothing is published before the branch was compared with the control plane: " + text
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
		readErr = f.write(ctx, r, f.failureFields(reason, text, waiting(err), r))
	}
	if readErr != nil {
		f.told = "" // to be told again, when the API server listens
		return
	}
	f.Events.Eventf(
		&r.ConfigMap,
		nil,
		corev1.EventTypeWarning,
		reason,
		"Follow",
		"%s",
		bundle.Bounded(text, bundle.MaxNoteBytes),
	)
}

// maxMessageBytes leaves room in the ConfigMap for the largest inventory: a message that does not fit would not be seen
// at all.
const maxMessageBytes = 16 << 10

// failureFields is what the record says of a failure. Whoever took the commit that is applied in part out of it finds
// it there again, so that the next leader does.
func (f *Follower) failureFields(reason, text, waiting string, r *record) map[string]string {
	return map[string]string{
		fieldReady: string(metav1.ConditionFalse), fieldReason: reason, fieldMessage: bundle.Bounded(text, maxMessageBytes),
		fieldApplying: cmp.Or(
			r.applying(),
			f.partial,
		), fieldHeld: map[bool]string{false: "true"}[f.begun], fieldWaiting: waiting,
	}
}

// waiting returns the commit of a failure that an approval ends, empty for others.
func waiting(err error) string {
	var held *PruneError
	if errors.As(err, &held) {
		return held.Commit
	}
	return ""
}
