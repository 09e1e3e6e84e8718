package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/autonomy"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/round"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Reconcile runs one round. It executes the actions that round.Decide returns, until the action is End. It never
// returns an error, because the queue's backoff would replace the poll interval.
func (a *Agent) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	p := a.beginRound(ctx)
	for {
		state, action := round.Decide(p.facts)
		if action == round.End {
			return ctrl.Result{RequeueAfter: a.endRound(ctx, p, state)}, nil
		}
		a.execute(ctx, p, action)
	}
}

func (a *Agent) beginRound(ctx context.Context) *roundRun {
	return &roundRun{log: ctrl.LoggerFrom(ctx), unrestored: map[string]string{}, facts: round.Facts{
		Memory: a.memory, Now: a.Now(), IsFirst: !a.hasStarted.Load(), IsBootstrapChanged: a.enrolled.Swap(false),
		IsNotified: a.notified.Load(), HasFolder: a.Folder != nil, ManagesImage: a.Deployment != nil,
	}}
}

// execute executes one action and adds its result to the facts.
func (a *Agent) execute(ctx context.Context, p *roundRun, action round.Action) {
	f := &p.facts
	switch action {
	case round.CheckBootstrap:
		f.Bootstrap = answer(a.restartIfReenrolled(ctx, p.log))
	case round.LoadState:
		f.Loaded = answer(a.loadState(ctx, p.log))
	case round.FindTwin:
		a.notified.Store(false)
		a.checkForTwin(ctx, p.log, true)
		f.Twin = answer(a.twinDetector.holdsBundles())
	case round.ImportFiles:
		a.importFiles(ctx, p.log)
		f.Imported = round.Yes
	case round.Pull:
		a.pullBundle(ctx, p.log)
		f.Pulled = answer(!a.pollFailed)
	case round.ReadChanges:
		f.AreDefinitionsChanged, p.contents, p.secrets = a.changes.take()
		f.IsReleased, f.Changes = takeover.ReleasesRuntime(a.Puller.Current()), round.Yes
	case round.RestoreDefinitions:
		f.Definitions = answer(a.restoreDefinitions(ctx, p))
	case round.RestoreObjects:
		f.Restored = answer(a.restoreOwnObjects(ctx, p))
	case round.ReadRuntime:
		f.Runtime = p.result(a.readRuntime(ctx, p))
	case round.FetchContent:
		f.Content = a.fetchContent(ctx, p)
	case round.WriteSecrets:
		a.writeSecrets(ctx, p.log, p.followed.Statement.Predicate, p.hasPolled())
		f.Secrets = round.Yes
	case round.ApplyFetched:
		pending := a.staging.PendingErrors()
		a.measureBeforeUpgrade(ctx, p.log, p.followed.Bundle, p.installed, p.gate, pending)
		a.Syncer.SyncStaged(ctx, p.followed.Bundle, pending, p.gate, a.Now())
		f.Applied = round.Yes
	case round.ApplyAll:
		a.measureBeforeUpgrade(ctx, p.log, p.followed.Bundle, p.installed, p.gate, a.contentErrors)
		p.written = a.Syncer.Sync(ctx, p.followed.Bundle, a.contentErrors, p.gate, a.Now())
		f.Applied = p.result(a.watches.Set(p.followed.State.Watchers))
	case round.Observe:
		f.Observed = p.result(a.observe(ctx, p))
	case round.Prune:
		f.Pruned = p.result(a.prune(ctx, p.report))
		a.addTrouble(p.log, &p.report, p.written, p.errs...)
	case round.UpdateStatus:
		f.Status = p.result(a.patchStatus(ctx, &p.report))
	case round.SendReport:
		f.Wake(a.sendReport(ctx, p.log, p.report))
		f.Report = round.Yes
	default:
		a.upgradeImage(ctx, p)
		f.Image = answer(f.IsProven)
	}
}

// loadState reads the bundle that the previous leader accepted, so that a new leader does not accept an older bundle.
// It returns false if the agent must try again.
func (a *Agent) loadState(ctx context.Context, log logr.Logger) bool {
	err := a.Puller.Restore(ctx)
	if err != nil {
		log.Error(err, "failed to read the bundle that the previous agent accepted")
	}
	a.hasStarted.Store(!manager.IsTemporary(err))
	return !manager.IsTemporary(err)
}

// readRuntime reads the Kyma and the Manifests, and selects the modules to apply.
func (a *Agent) readRuntime(ctx context.Context, p *roundRun) (err error) {
	if p.kyma, err = a.getKyma(ctx); err != nil {
		return err
	}
	if p.installed, err = listManifests(ctx, a.Client); err != nil {
		return err
	}
	asking := p.kyma
	if a.pinsError != nil {
		asking = nil // ignore an unreadable Kyma, so that it does not remove modules
	}
	p.followed = autonomy.Apply(a.Puller.Current(), asking, p.installed)
	b, selected := p.followed.Bundle, p.followed.SelectedModules
	if a.logged.Update(loggedDecided, strings.Join(selected, " ")) && len(selected) > 0 {
		p.log.Info("applying the request of the runtime's Kyma until the control plane responds", "modules", selected)
	}
	p.facts.HasBundle, p.facts.IsDeleting = b != nil, b != nil && b.Statement.Predicate.Deleting
	a.unmanaged = maintenance.UnmanagedVersions(b, a.unmanaged, p.kyma, p.installed)
	p.gate = maintenance.New(a.Puller.Current(), a.Puller.FrozenReason(ctx), p.kyma, a.unmanaged, a.Puller.CurrentTime())
	return nil
}

// fetchContent fetches the modules' content.
func (a *Agent) fetchContent(ctx context.Context, p *roundRun) round.Result {
	var err error
	p.hasFetched, err = a.stageContents(ctx, p.log, p.followed.State)
	switch {
	case err == nil && a.staging != nil:
		return round.More
	case err == nil && a.stagedKey == "":
		p.facts.Wake(round.MinDelay) // the next round fetches missing content again
	}
	return p.result(err)
}

// observe reads the state of the runtime for the report.
func (a *Agent) observe(ctx context.Context, p *roundRun) error {
	facts, err := a.collectFacts(ctx, p.gate, p.followed)
	if err != nil {
		return err
	}
	facts.EnrollmentProblem, facts.RegistryProblem = cmp.Or(a.twinMessage(), a.enrollmentProblem(p.log)), a.outage.reason
	a.updateChecks(ctx, p.log, p.followed.Bundle, facts.Manifests)
	facts.Checks, facts.CheckRun = a.Checks.Results, a.Checks.RunResult()
	facts.PhaseDone, facts.Removed = p.written.PhaseDone, p.written.Removed
	a.recordRemoved(p.log, facts.Kyma, p.written.Removed)
	a.verifyFailedModules(facts.Manifests, p.hasFetched)
	measureModules(facts.Manifests)
	opensAfter := a.logWaiting(p.log, p.gate, facts.WaitingUpgrades)
	var nextChange time.Duration
	facts.Watched, nextChange = a.watches.Report(a.nextSequence(), a.Now())
	p.facts.Wake(p.written.Retry, nextChange, opensAfter)
	p.report = facts
	return nil
}

// endRound logs a round's errors once, and returns the delay until the next round.
func (a *Agent) endRound(ctx context.Context, p *roundRun, state round.State) (delay time.Duration) {
	if ctx.Err() != nil {
		return 0 // the process is shutting down
	}
	switch err := errors.Join(p.errs...); {
	case err == nil && a.logged.Update(loggedRound, ""):
		p.log.Info("completed a round after failures")
	case err != nil && a.logged.Update(loggedRound, err.Error()):
		p.log.Error(err, "failed to complete a round, retrying")
	}
	if state == round.Fetching && !slices.ContainsFunc(p.errs, canBeAgentFault) {
		a.trial.registryFailure.Store(true) // the round sends no report, so it cannot prove a new image
	}
	a.memory, delay = round.Finish(p.facts, state, jitter.JitteredIntervalDuration(a.pollInterval()), a.Now())
	return delay
}

// logWaiting logs each waiting upgrade once. It returns the time until the next maintenance window, or 0 if no
// upgrade waits.
func (a *Agent) logWaiting(log logr.Logger, gate maintenance.Gate, waiting map[string]string) time.Duration {
	for _, module := range a.waiting.Replace(waiting) {
		log.Info("an upgrade is waiting", "module", module, "reason", waiting[module])
	}
	upgradesWaiting.Set(float64(len(waiting)))
	if len(waiting) == 0 || gate.OpensAt.IsZero() {
		return 0
	}
	return max(gate.OpensAt.Sub(a.Puller.CurrentTime()), time.Millisecond)
}

// writeSecrets writes the sealed Secrets in the last accepted bundle. If again is true, it also checks Secrets that it
// has already written.
func (a *Agent) writeSecrets(ctx context.Context, log logr.Logger, p bundle.Predicate, again bool) {
	before := bundle.ReportedSecrets{}
	if a.secrets != nil {
		before = *a.secrets
	}
	a.secrets = a.Secrets.Reconcile(ctx, p.Sealed, again)
	switch {
	case a.secrets == nil || *a.secrets == before:
	case a.secrets.Trouble != "":
		log.Error(errors.New(a.secrets.Trouble), "failed to write some Secrets of the last accepted bundle")
	default:
		log.Info("wrote the Secrets of the last accepted bundle", "revision", a.secrets.Revision)
	}
}

// recordRemoved logs the lifecycle-manager objects that were removed from the runtime, and emits an Event.
func (a *Agent) recordRemoved(log logr.Logger, kyma *v1beta2.Kyma, removed []bundle.ObjectRef) {
	if len(removed) == a.loggedLeftovers {
		return
	}
	a.loggedLeftovers = len(removed)
	names := make([]string, len(removed))
	for i, o := range removed {
		names[i] = o.String()
	}
	text := strings.Join(names, ", ")
	log.Info("removed lifecycle-manager's leftovers", "objects", text)
	if kyma != nil {
		note := bundle.Bounded("removed lifecycle-manager's leftovers: "+text, bundle.MaxNoteBytes)
		a.Events.Eventf(kyma, nil, corev1.EventTypeNormal, v1beta2.ReasonLeftoverRemoved, "Clean", "%s", note)
	}
}
