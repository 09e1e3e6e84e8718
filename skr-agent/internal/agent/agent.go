// Package agent ties the steps of the runtime's side together: pull, stage, sync, tell. It is one controller with one
// request, so that the steps never run twice at once; every event and the clock ask for another round.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/autonomy"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/watch"
)

// Options are what an Agent needs.
type Options struct {
	Runtime string
	// Instance is a nonce of this process, empty to look for no second agent with the same key.
	Instance string
	Version  string
	// KubernetesVersion and ClusterUID are the runtime's.
	KubernetesVersion string
	ClusterUID        string
	Place             store.Store
	// Notifications connects to the publisher's, nil for none.
	Notifications func(context.Context) (io.ReadCloser, error)
	// Folder is looked into for files that were carried, nil for none.
	Folder  *importer.Folder
	Store   *contentstore.Store
	Puller  *pull.Puller
	Syncer  *objects.Syncer
	Secrets *secrets.Keeper
	// Keeper puts back what the runtime lost.
	Keeper *objects.Keeper
	// TryAgain takes Manifests that the installer is to look at.
	TryAgain chan<- event.GenericEvent
	// Client may cache; it sees Kyma, Manifests and the catalog. Uncached does not.
	Client, Uncached client.Client
	Events           events.EventRecorder
	// Signer is the runtime's own key, Token what introduces it, nil when there is none.
	Signer trust.Signer
	Token  *trust.Token
	// PollInterval and ReportInterval are the defaults; a bundle's settings win.
	PollInterval   time.Duration
	ReportInterval time.Duration
	Now            func() time.Time
	// Deployment is the agent's own, nil when no bundle may change it.
	Deployment *upgrade.Deployment
	// UpgradeDeadline is how long another image may lead until it has proven itself.
	UpgradeDeadline time.Duration
}

// Agent keeps one runtime. Its fields are used by one worker, but for those that say otherwise.
type Agent struct {
	Options
	watches  *watch.Watches
	nextPoll time.Time
	// notified asks for a poll before that; notify has a round begin for it.
	notified atomic.Bool
	notify   chan event.GenericEvent
	// said is what was logged of the registry, the agent's certificate, enrollment, state and decisions, waiting of
	// upgrades that wait for a maintenance window, by module, and notImported of files that could not be imported.
	said, waiting, notImported logonce.Memo
	delivery                   delivery
	twins                      twins
	// sequence is that of the last report; resumed says that those of the agent before this one are known.
	sequence int64
	resumed  bool
	// request asks for a certificate; it is made once for each time that one is due.
	request string
	// unread says that the last look at the registry brought nothing to follow: it could not be read, what it has was
	// refused, or it could not be kept, which notKept says why.
	unread  bool
	notKept error
	outage  outage
	// rounds is the backoff of rounds that could not be finished.
	rounds wait.Backoff
	// well is since when all rounds were whole, proven that the agent's image has done its work, agentProblem why the
	// agent is not what the bundle wants.
	well         time.Time
	proven       bool
	agentProblem string
	// unmanaged are the versions of modules that nobody looks after, by name.
	unmanaged map[string]string
	// secrets is what became of the Secrets that the bundle in force brought.
	secrets *bundle.ReportedSecrets
	// unreadable says why it cannot be read what the runtime's Kyma asks for, nil when it can.
	unreadable error
	// leftovers is how many of them were told to be removed.
	leftovers int
	contents
	restoration
}

// Subjects of Agent.said.
const (
	saidOutage      = "registry"
	saidRound       = "round"
	saidTrouble     = "trouble"
	saidDecided     = "decided"
	saidCertificate = "certificate"
	saidUnenrolled  = "enrolled"
	saidNotSaved    = "saved"
)

// New returns an Agent that has not looked at anything yet.
func New(options Options) *Agent {
	return &Agent{Options: options, rounds: newRounds(), notify: make(chan event.GenericEvent, 1)}
}

// Notify has the registry polled now, whatever the interval. It returns at once and may be called by anybody.
func (a *Agent) Notify() {
	a.notified.Store(true)
	select {
	case a.notify <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
	default: // a round is to come
	}
}

// Reconcile does one round. It never fails: the queue's own backoff would take the place of the poll interval. What
// went wrong is told, and tried again while polls go on.
func (a *Agent) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	if !a.begun.Swap(true) {
		a.catchUp(ctx, log)
	}
	now := a.Now()
	polled := a.notified.Swap(false) || !now.Before(a.nextPoll)
	if polled {
		a.lookForTwin(ctx, log, true)
		a.poll(ctx, log)
		a.nextPoll = now.Add(jitter.JitteredIntervalDuration(a.pollInterval()))
	}
	restoring := a.restore(ctx, log, polled)
	again, err := a.round(ctx, log, polled)
	return ctrl.Result{RequeueAfter: nextRound(time.Until(a.nextPoll), again, restoring, a.noteRound(ctx, log, err))}, nil
}

// catchUp takes up what the agent before accepted: this one may have stood by since long before that, and would take an
// older bundle for the newest.
func (a *Agent) catchUp(ctx context.Context, log logr.Logger) {
	if err := a.Puller.Restore(ctx); err != nil {
		log.Error(err, "what the agent before this one accepted could not be read")
	}
}

// round brings the runtime in line with the bundle in force and reports the result: it reads, decides with decideRound,
// acts and records. It returns when the next round is due, 0 for the next poll.
func (a *Agent) round(ctx context.Context, log logr.Logger, polled bool) (time.Duration, error) {
	kyma, err := a.kyma(ctx)
	if err != nil {
		return 0, err
	}
	installed, err := a.manifests(ctx)
	if err != nil {
		return 0, err
	}
	asking := kyma
	if a.unreadable != nil {
		asking = nil // what is asked for cannot be read, and nothing goes for it
	}
	followed := autonomy.Follow(a.Puller.Current(), asking, installed)
	a.unmanaged = maintenance.Unmanaged(followed.Bundle, a.unmanaged, kyma, installed)
	gate := a.gate(kyma)
	a.noteDecided(log, followed)
	var written objects.Outcome
	var watchErr, stageErr error
	fetched, b := false, followed.Bundle
	if b != nil {
		if fetched, stageErr = a.stage(ctx, log, b.State); stageErr == nil {
			a.keepSecrets(ctx, log, b.Statement.Predicate, polled)
		}
	}
	actions := decideRound(roundFacts{
		bundle: b, polled: polled, postponed: a.postponed, fetching: a.staging != nil, unfetchable: stageErr != nil,
		proven: a.proven, onTrial: a.Deployment != nil,
	})
	a.postponed = actions.postponed
	switch actions.sync {
	case syncStaged:
		a.Syncer.SyncStaged(ctx, b, a.staging.Waiting(), gate, a.Now())
	case syncAll:
		written, watchErr = a.Syncer.Sync(ctx, b, a.unstaged, gate, a.Now()), a.watches.Set(b.State.Watchers)
	case syncNothing:
	}
	if !actions.report {
		return actions.again, stageErr
	}
	facts, err := a.facts(ctx, gate, followed)
	if err != nil {
		return 0, err
	}
	facts.Unenrolled, facts.Unavailable = cmp.Or(a.cloned(), a.unenrolled(log)), a.outage.why
	facts.PhaseDone, facts.Removed = written.PhaseDone, written.Removed
	a.tellRemoved(log, facts.Kyma, written.Removed)
	a.suspect(facts.Manifests, fetched)
	measureModules(facts.Manifests)
	opens := a.noteWaiting(log, gate, facts.Waiting)
	var moreToTell time.Duration
	facts.Watched, moreToTell = a.watches.Tell(a.nextSequence(), a.Now())
	pruneErr := a.prune(ctx, facts)
	a.addTrouble(log, &facts, written, watchErr, pruneErr)
	var tellErr error
	if actions.status {
		tellErr = a.tellKyma(ctx, &facts)
	}
	a.report(ctx, log, facts)
	err = errors.Join(watchErr, pruneErr, tellErr)
	if actions.upgrade {
		a.upgrade(ctx, log, err == nil && !slices.ContainsFunc(written.Failures, isOurs))
	}
	if a.proven {
		actions.again = 0 // this round proved the image
	}
	return shortest(written.Retry, moreToTell, opens, actions.again, a.stageAgain()), err
}

func (a *Agent) pollInterval() time.Duration {
	return cmp.Or(settingsOf(a.Puller.Current()).PollInterval.Duration, a.PollInterval)
}

func (a *Agent) reportInterval() time.Duration {
	return cmp.Or(settingsOf(a.Puller.Current()).ReportInterval.Duration, a.ReportInterval)
}

// poll looks for a newer bundle, and for content that could not be had before.
func (a *Agent) poll(ctx context.Context, log logr.Logger) {
	if a.Folder != nil {
		a.importFiles(ctx, log)
	}
	if a.twins.twin != "" {
		return // a newer bundle may answer the request of another cluster
	}
	before, root := slices.Clone(a.Puller.Refused()), a.Puller.Root().Version
	changed, err := a.Puller.Pull(ctx)
	if ctx.Err() != nil {
		return // the agent is ending, which says nothing of the registry
	}
	a.unread, a.notKept = err != nil, nil
	if errors.Is(err, pull.ErrNotKept) {
		a.notKept = err
	}
	for _, refused := range a.Puller.Refused() {
		if !slices.Contains(before, refused) {
			a.tellRefused(ctx, log, refused)
		}
	}
	if now := a.Puller.Root(); now.Version != root {
		log.Info("follows a newer root of trust", "version", now.Version, "epoch", now.Epoch, "expires", now.Expires)
	}
	outage := err != nil && refusal.Of(err) == nil
	a.measurePoll(outage || a.notKept != nil, changed, a.Now())
	a.noteOutage(log, outage, err)
	if outage && a.notKept == nil {
		a.noteRegistry(err)
	} else {
		a.noteRegistry(nil)
	}
	if changed {
		b := a.Puller.Current()
		log.Info("accepted bundle", "sequence", b.Statement.Predicate.Sequence, "digest", b.Digest, "modules", len(b.State.Manifests), "removals", b.Statement.Predicate.Removals)
	}
	a.notePoll()
}

// noteDecided logs once what the runtime does by itself.
func (a *Agent) noteDecided(log logr.Logger, followed autonomy.Followed) {
	if a.said.Changed(saidDecided, strings.Join(followed.Decided, " ")) && len(followed.Decided) > 0 {
		log.Info("follows the runtime's Kyma before the control plane answers", "modules", followed.Decided)
	}
}

func (a *Agent) tellRefused(ctx context.Context, log logr.Logger, refused bundle.RefusedBundle) {
	bundlesRefused.WithLabelValues(string(refused.Reason)).Inc()
	what, stays := "a bundle", "the one before stays in force"
	if refused.Reason.AboutRoot() {
		what, stays = "a root of trust", "the one before is followed"
	}
	log.Error(errors.New(refused.Detail), "refused "+what+", "+stays, "digest", refused.Digest, "reason", refused.Reason)
	a.event(ctx, v1beta2.ReasonBundleRefused, fmt.Sprintf("refused %s %s (%s): %s", what, refused.Digest, refused.Reason, refused.Detail))
}

func (a *Agent) event(ctx context.Context, reason, note string) {
	kyma := &v1beta2.Kyma{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}, kyma); err == nil {
		a.Events.Eventf(kyma, nil, corev1.EventTypeWarning, reason, "Pull", "%s", bundle.Bounded(note, bundle.MaxNoteBytes))
	}
}

// kyma returns the runtime's own, nil while there is none. Its spec is what it asks for: with the versions that it
// pins, where they can be read.
func (a *Agent) kyma(ctx context.Context) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}, kyma)
	a.unreadable = nil
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the runtime's Kyma: %w", err)
	}
	kyma.Spec, a.unreadable = kyma.Asked()
	return kyma, nil
}

// manifests returns the runtime's own, as the cache has them: they are only read.
func (a *Agent) manifests(ctx context.Context) ([]v1beta2.Manifest, error) {
	var manifests v1beta2.ManifestList
	if err := a.Client.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	return manifests.Items, nil
}

func (a *Agent) facts(ctx context.Context, gate maintenance.Gate, followed autonomy.Followed) (report.Facts, error) {
	facts := report.Facts{
		Bundle: followed.Bundle, Decided: followed.Decided, Expired: a.Puller.Expired(), Lost: a.Puller.Lost(), Refused: a.Puller.Refused(),
		Unstaged: a.unstaged, Unmanaged: a.unmanaged, Secrets: a.secrets, AgentProblem: a.agentProblem,
	}
	var err error
	if facts.Kyma, err = a.kyma(ctx); err != nil {
		return facts, err
	}
	facts.Unreadable = a.unreadable
	if facts.Manifests, err = a.manifests(ctx); err != nil {
		return facts, err
	}
	if facts.Templates, err = a.templates(ctx); err != nil {
		return facts, err
	}
	facts.Waiting, facts.WaitReason = gate.Waiting(facts.Bundle, facts.Manifests), gate.Reason()
	facts.ClusterScoped = clusterScoped(a.Client, facts.Manifests)
	return facts, nil
}

// tellKyma writes the status of the runtime's Kyma when it changed.
func (a *Agent) tellKyma(ctx context.Context, facts *report.Facts) error {
	if facts.Kyma == nil {
		return nil
	}
	before := facts.Kyma.DeepCopy()
	facts.Kyma.Status = report.KymaStatus(facts.Kyma.Status, *facts, a.Now())
	if equality.Semantic.DeepEqual(before.Status, facts.Kyma.Status) {
		return nil
	}
	// The answer has the spec as it is stored, which is not what the Kyma asks for.
	if err := a.Client.Status().Patch(ctx, facts.Kyma.DeepCopy(), client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of the runtime's Kyma: %w", err)
	}
	return nil
}
