package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/source"
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
	// Hold keeps half of a commit from being published.
	Hold func() (release func())
	// Interval is how often the branch is looked at.
	Interval time.Duration
	// PruneAll lets a commit remove all objects, or all Kymas, that earlier ones brought.
	PruneAll bool

	current atomic.Pointer[bundle.Source]

	// Only the goroutine of Start uses what follows.
	done    string    // what the branch named when it was last applied
	checked time.Time // when KCP was last compared with it
	told    string    // the failure that was told last
}

const (
	// fieldManager owns the fields that a commit sets.
	fieldManager = "kcp-publisher-git"
	// compareAgain is how long a difference between KCP and a commit that was applied may go unnoticed.
	compareAgain = 10 * time.Minute
	// concurrency is how many objects are applied at once.
	concurrency = 8
	// maxTold is how many objects' problems are told of one commit.
	maxTold = 10
)

// Source is the commit that KCP has, or is about to have; nil before it is known.
func (f *Follower) Source() *bundle.Source { return f.current.Load() }

// Start looks at the branch until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("git"))
	release := f.Hold()
	defer release()
	r, err := f.readRecord(ctx)
	if err == nil && r.Data[fieldCommit] != "" {
		f.current.Store(&bundle.Source{Repository: r.Data[fieldRepository], Commit: r.Data[fieldCommit]})
	}
	// Whoever was ended in the middle of a commit goes on with it before anything is published.
	if err == nil && r.Data[fieldApplying] == "" {
		release()
	}
	for {
		f.tell(ctx, f.Look(ctx))
		release()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter.JitteredIntervalDuration(f.Interval)):
		}
	}
}

// Look applies the newest commit if it is new, or if KCP was not compared with it for a while.
func (f *Follower) Look(ctx context.Context) error {
	repository, err := f.Open()
	if err != nil {
		return err
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return err
	}
	if head == f.done && time.Since(f.checked) < compareAgain {
		return nil
	}
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return err
	}
	if err := f.apply(ctx, repository, commit, objects); err != nil {
		return fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err)
	}
	f.done, f.checked = commit.Head, time.Now()
	return nil
}

func (f *Follower) apply(ctx context.Context, repository *git.Repository, commit *git.Commit, objects source.Objects) error {
	s, err := f.Survey(ctx, commit.Hash, objects)
	if err != nil {
		return err
	}
	plan, r := s.Plan, s.record
	// Nothing is changed before the API has taken all of it in a dry run.
	if err := f.applyAll(ctx, plan.Apply, client.DryRunAll); err != nil {
		return err
	}
	if len(plan.Apply)+len(plan.Prune) > 0 {
		if err := f.step(ctx, repository, commit, s); err != nil {
			return err
		}
	}
	f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
	if f.done != commit.Head || len(plan.Apply)+len(plan.Prune) > 0 {
		ctrl.LoggerFrom(ctx).Info("applied commit", "commit", commit.Hash, "author", commit.Author, "objects", len(plan.Inventory),
			"changed", len(plan.Apply), "pruned", len(plan.Prune), "ignored", append(s.Left, commit.Ignored...))
	}
	changes.WithLabelValues("apply").Add(float64(len(plan.Apply)))
	changes.WithLabelValues("prune").Add(float64(len(plan.Prune)))
	applied.Reset()
	applied.WithLabelValues(commit.Hash).Set(1)
	text, err := encodeInventory(plan.Inventory)
	if err != nil {
		return err
	}
	return f.write(ctx, r, map[string]string{
		fieldRepository: repository.URL, fieldRevision: repository.Revision(), fieldPath: repository.Path, fieldCommit: commit.Hash, fieldAuthor: commit.Author,
		fieldTime: commit.Time.UTC().Format(time.RFC3339), fieldSignedBy: commit.SignedBy, fieldInventory: text, fieldApplying: "",
		fieldReady: string(metav1.ConditionTrue), fieldMessage: fmt.Sprintf("%d objects are applied", len(plan.Inventory)),
	})
}

// step changes the control plane. Meanwhile nothing is published.
func (f *Follower) step(ctx context.Context, repository *git.Repository, commit *git.Commit, s Survey) error {
	// What may come into being is written down first, so that it is found again whatever happens meanwhile.
	text, err := encodeInventory(slices.Concat(s.Plan.Inventory, s.inventory))
	if err != nil {
		return err
	}
	defer f.Hold()()
	if err := f.write(ctx, s.record, map[string]string{fieldInventory: text, fieldApplying: commit.Hash}); err != nil {
		return err
	}
	f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
	if err := f.applyAll(ctx, s.Plan.Apply); err != nil {
		return err
	}
	return f.prune(ctx, s.Plan.Prune, s.Live)
}

// applyAll applies objects kind after kind. The error names the places of those that the API refuses.
func (f *Follower) applyAll(ctx context.Context, objects []source.Written, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(fieldManager), client.ForceOwnership)
	problems := make([]error, len(objects))
	for start := 0; start < len(objects); {
		kind := objects[start].Object.GetKind()
		group := errgroup.Group{}
		group.SetLimit(concurrency)
		for ; start < len(objects) && objects[start].Object.GetKind() == kind; start++ {
			w := objects[start]
			problem := &problems[start]
			group.Go(func() error {
				object := w.Object.DeepCopy() // the answer is written into it
				if err := f.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
					*problem = fmt.Errorf("%s: %w", w.Place, err)
				}
				return nil
			})
		}
		_ = group.Wait() // problems are kept in order
	}
	var told []error
	for _, problem := range problems {
		if problem != nil {
			told = append(told, problem)
		}
	}
	if more := len(told) - maxTold; more > 0 {
		told = append(told[:maxTold], fmt.Errorf("and %d more", more))
	}
	return errors.Join(told...)
}

// prune deletes what only earlier commits had. An object that somebody took the commit's annotation from is not ours any more.
func (f *Follower) prune(ctx context.Context, keys []Key, live map[Key]*unstructured.Unstructured) error {
	var problems []error
	for _, key := range keys {
		object := live[key]
		if object == nil || object.GetDeletionTimestamp() != nil || object.GetAnnotations()[v1beta2.AnnotationGitCommit] == "" {
			continue
		}
		uid := object.GetUID()
		err := f.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			problems = append(problems, fmt.Errorf("prune %s: %w", key, err))
		}
	}
	return errors.Join(problems...)
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
	if err.Error() == f.told {
		return
	}
	f.told = err.Error()
	ctrl.LoggerFrom(ctx).Error(err, "the repository could not be followed, nothing is removed")
	r, readErr := f.readRecord(ctx)
	if readErr == nil {
		readErr = f.write(ctx, r, map[string]string{fieldReady: string(metav1.ConditionFalse), fieldMessage: f.told})
	}
	if readErr != nil {
		f.told = "" // to be told again, when the API server listens
		return
	}
	f.Events.Eventf(&r.ConfigMap, nil, corev1.EventTypeWarning, "CommitRefused", "Follow", "%s", bundle.Bounded(f.told, bundle.MaxNoteBytes))
}
