package install

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// upgrader applies the version that a Manifest requests: it plans, checks, dry-runs, applies and prunes.
type upgrader struct {
	planner   *planner
	checker   *checker
	dryRunner *dryRunner
	applier   *applier
	deleter   *deleter
	observer  *observer
	ledger    *ledger
	reporter  *reporter
	pacer     *pacer

	now                  func() time.Time
	resync, lookInterval time.Duration
}

// apply applies a Manifest's content. If todo is stepCorrect, it applies only the changed objects. The outcome has a
// state only if the apply failed or must wait.
func (up *upgrader) apply(
	ctx context.Context, m *v1beta2.Manifest, known *memo, todo step, changed object.Keys,
) (outcome.Outcome, error) {
	started := up.now()
	// New values and image rules do not change the generation. Objects that change because of them have no drift.
	wasInstalled := planning.Installed(m) && (known.recordFailed || !planning.HasWrongRecord(m))
	p, out, err := up.prepare(ctx, m, known, todo, changed)
	if err != nil || out.State != "" {
		return out, err
	}
	if todo == stepApply {
		if err := up.dryRunner.pruneInterceptors(ctx, m, p); err != nil {
			return outcome.Outcome{}, err
		}
	}
	applied, wait, err := up.write(ctx, m, known, p, wasInstalled, changed)
	if wasInstalled && len(applied) > 0 {
		up.reporter.recordDrift(ctx, m, applied)
		known.corrections.count(applied, up.now())
	}
	if err != nil {
		return up.handleErrors(m, known, out, p, err)
	}
	if wait == "" && len(p.Unread) > 0 {
		wait = p.UnreadText()
	}
	if wait != "" {
		out = up.pacer.inProgress(m, known, out, wait)
		// Keep an installed module's status. Otherwise, each start of the agent would show the module as Processing
		// until its watches run.
		out.KeepStatus = wasInstalled && len(p.Unread) == 0 && out.State == v1beta2.StateProcessing
		return out, nil
	}
	objectsApplied.WithLabelValues(m.Module()).Add(float64(len(applied)))
	if todo == stepCorrect {
		return out, nil
	}
	if out, err = up.prune(ctx, m, known, p, out); err != nil {
		return outcome.Outcome{}, err
	}
	if problem := p.LeftOut(); problem != nil {
		out.Installation = problem
		return up.pacer.errorOutcome(m, known, out), nil
	}
	if err := up.ledger.recordApplied(ctx, m, known); err != nil {
		return outcome.Outcome{}, err
	}
	applyDuration.WithLabelValues(m.Module()).Observe(up.now().Sub(started).Seconds())
	known.checkedGeneration, known.checkedAt = m.Generation, up.now()
	known.images, known.values = m.Annotations[v1beta2.AnnotationImages], m.Annotations[v1beta2.AnnotationValues]
	known.inherited = record.ReadUnverified(m).Inherited
	known.recordMoves(p)
	out.Installation = &outcome.Finding{
		OK: true, Reason: v1beta2.ReasonApplied, Message: fmt.Sprintf("%d objects are applied", len(p.Inventory)),
	}
	return out, nil
}

// prepare plans the apply, checks the plan, and writes the planned objects to the inventory.
func (up *upgrader) prepare(
	ctx context.Context, m *v1beta2.Manifest, known *memo, todo step, changed object.Keys,
) (planning.Plan, outcome.Outcome, error) {
	p, problem, err := up.planner.planFor(ctx, m, todo, changed)
	if err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	if problem != nil {
		out := up.pacer.errorOutcome(m, known, outcome.Outcome{Inventory: m.Status.Synced, Resources: problem})
		out.Untouched = true
		return planning.Plan{}, out, nil
	}
	out := outcome.Outcome{Inventory: m.Status.Synced, Images: &p.Images, Resources: &p.Resources}
	if todo != stepApply {
		known.forgetReady(p)
		return p, out, nil
	}
	delete(known.deniedReads, readAutoscalers)
	if up.now().Sub(known.checkedAt) >= up.resync {
		known.settledObjects = nil // at the resync interval, compare all objects with the cluster
	}
	out.Fields = up.reporter.fieldsOf(m, p)
	if out.Rights, problem, err = up.checker.check(ctx, m, &p); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	if problem != nil {
		out.Installation = problem
		out = up.pacer.errorOutcome(m, known, out)
		out.Untouched, out.Forbidden = true, true
		return planning.Plan{}, out, nil
	}
	tried, err := up.dryRunner.dryRunWithFix(ctx, m, known, p)
	if err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	p.Recreate = tried.recreate
	switch {
	case tried.problem == nil:
	case record.ReadUnverified(m).Applied == nil: // a first installation applies the objects that the API server accepts
		p.Refused = tried.problem
	default:
		out.Untouched = !planning.IsBegun(m)
		out.Installation = tried.problem
		out = up.pacer.errorOutcome(m, known, out)
		known.recordRefusal(m, out, up.now(), tried.immutable)
		return planning.Plan{}, out, nil
	}
	if err := up.ledger.begin(ctx, m, known); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	up.planner.plans.Keep(client.ObjectKeyFromObject(m), planning.Input(m, up.planner.owner(m)), p)
	p.LeaveUnread()
	// Write the inventory before any object, so that a crash does not orphan objects.
	if out, err = up.reporter.announce(ctx, m, out, object.Union(p.Inventory, m.Status.Synced)); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	return p, out, nil
}

// write applies a plan and creates the default CR. It returns the changed objects, and the reason why the rest of the
// plan must wait, or "".
func (up *upgrader) write(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan, wasInstalled bool, seen object.Keys,
) ([]guard.Key, string, error) {
	if wait, err := up.dryRunner.recreate(ctx, m, p); err != nil || wait != "" {
		return nil, wait, err
	}
	applied, wait, err := up.applier.applyPlan(ctx, m, known, p, seen)
	if err != nil || wait != "" {
		return applied, wait, err
	}
	created, wait, err := up.applier.createDefaultCR(ctx, up.planner.accounts.Of(m), up.planner.owner(m), known, p)
	if created && wasInstalled {
		applied = append(applied, guard.KeyOf(p.DefaultCR))
	}
	return applied, wait, err
}

// handleErrors handles errors from the API server during an apply. Temporary errors cause a retry. An error that the
// module causes sets the module's state to Error.
func (up *upgrader) handleErrors(
	m *v1beta2.Manifest, known *memo, out outcome.Outcome, p planning.Plan, err error,
) (outcome.Outcome, error) {
	var definite, temporary []string
	forbidden := false
	for _, one := range account.Separate(err) {
		switch {
		case account.IsTransient(one):
			temporary = append(temporary, one.Error())
		case account.IsTemporary(one) && !account.IsMistake(one):
			return outcome.Outcome{}, err
		default:
			definite, forbidden = append(definite, one.Error()), forbidden || account.LacksRight(one)
		}
	}
	switch {
	case p.Refused != nil:
		out.Installation = p.Refused
		return up.pacer.errorOutcome(m, known, out), nil
	case len(definite) == 0:
		// All errors are temporary. A typical cause is a webhook whose server is part of this module and does not run
		// yet.
		return up.pacer.inProgress(m, known, out, "waiting for the API server to accept "+excerpt.FirstFew(temporary)), nil
	}
	out.Installation = &outcome.Finding{
		Reason: v1beta2.ReasonApplyFailed, Message: excerpt.FirstFew(append(definite, p.Unknown...)),
	}
	if forbidden {
		out.Installation.Reason = v1beta2.ReasonForbidden
	}
	return up.pacer.errorOutcome(m, known, out), nil
}

// prune deletes the objects that are not in the current version. It keeps objects that other modules take over, and
// objects that contain user data.
func (up *upgrader) prune(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan, out outcome.Outcome,
) (outcome.Outcome, error) {
	known.heldReason, known.heldFor = "", deleteRetryInterval
	found, err := up.planner.handOver(ctx, m, p.Prune)
	if err != nil {
		return out, err
	}
	known.recordHandover(found, up.now())
	pruned := object.KeysOf(found.deletable)
	var data, leaving []string
	for _, stage := range planning.RemovalStages(found.deletable) {
		for _, r := range stage {
			why, err := up.deleter.keepsData(ctx, m, r)
			if err != nil {
				return out, err
			}
			if why != "" {
				data = append(data, why)
				continue
			}
			left, err := up.deleter.deleteObjects(ctx, m, []v1beta2.Resource{r}, pruned, up.planner.mayDelete(m))
			if err != nil {
				return out, err
			}
			if len(left.objects) > 0 {
				leaving = append(leaving, left.texts...)
				continue
			}
			out.Inventory = object.Without(out.Inventory, object.KeysOf([]v1beta2.Resource{r}))
		}
		if len(leaving) > 0 { // later stages can contain the operator that removes the finalizers
			break
		}
	}
	switch {
	case len(leaving) > 0:
		known.heldReason = "waiting for the deletion of " + excerpt.FirstFew(leaving)
	case len(data) > 0:
		known.heldReason, known.heldFor = excerpt.FirstFew(data), dataInterval
	}
	if p.DefaultCR != nil {
		// This version's default CR can be part of an earlier version's content.
		out.Inventory = object.Without(out.Inventory, object.KeysOf([]v1beta2.Resource{object.ResourceOf(p.DefaultCR)}))
	}
	known.dropped = object.KeysOf(p.Prune)
	if len(p.Prune) > 0 {
		needed := out.Inventory
		if p.DefaultCR != nil {
			needed = object.Union(needed, []v1beta2.Resource{object.ResourceOf(p.DefaultCR)})
		}
		up.deleter.retain(ctx, m, needed)
	}
	return out, nil
}

// correctApplied corrects drift from the last applied version while the requested version is refused. It returns the
// changed objects that are not corrected yet.
func (up *upgrader) correctApplied(
	ctx context.Context, m *v1beta2.Manifest, known *memo, changed object.Keys,
) object.Keys {
	was := up.ledger.lastApplied(m)
	if was == nil {
		return changed
	}
	applied := record.ReadUnverified(m).Applied
	version := applied.Version + " " + applied.Digest
	whole := known.keptVersion != version || up.now().Sub(known.keptAt) >= up.resync
	due, later, _ := known.corrections.split(changed, up.now())
	if whole {
		due, later = changed, object.Keys{}
	}
	if known.hasBegun || !whole && len(due) == 0 {
		return changed
	}
	p, problem, err := up.planner.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // ignore it; the status reports the requested version only
	}
	p.KeepTaken()
	// The last applied version must pass the same checks as a new version.
	if _, problem, err = up.checker.check(ctx, was, &p); err != nil || problem != nil {
		return changed
	}
	if !whole {
		p.KeepOnly(due)
	}
	p.LeaveUnread()
	corrected, wait, err := up.write(ctx, was, known, p, true, due)
	if len(corrected) > 0 {
		up.reporter.recordDrift(ctx, m, corrected)
		known.corrections.count(corrected, up.now())
	}
	if wait != "" {
		return changed
	}
	known.keptVersion, known.keptAt = version, up.now()
	left := later
	for k := range account.FailedKeys(err) {
		if changed.Has(k) {
			left[k] = struct{}{}
		}
	}
	if err != nil && len(account.FailedKeys(err)) == 0 {
		return changed
	}
	return left
}

// mustCorrectApplied reports whether the agent must correct drift from the last applied version, because it could not
// apply the requested version.
func mustCorrectApplied(m *v1beta2.Manifest, out outcome.Outcome) bool {
	if out.State != v1beta2.StateError || out.Forbidden && planning.IsLastApplied(m) {
		return false
	}
	return out.Untouched || planning.IsLastApplied(m)
}

func (up *upgrader) addReadiness(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out outcome.Outcome, heldBack time.Duration,
) (outcome.Outcome, error) {
	seen, watched, err := up.observer.observe(ctx, m, known, out.Inventory)
	if err != nil {
		return outcome.Outcome{}, err
	}
	if rights := known.deniedReadsOf(m); rights != nil {
		out.Rights = rights
	}
	result := readiness.ModuleState(seen)
	if known.heldReason != "" && result.State == v1beta2.StateReady {
		result = readiness.Verdict{State: v1beta2.StateWarning, Message: known.heldReason}
	}
	out.State = result.State
	out.Ready = outcome.Finding{
		Reason: string(result.State), Message: result.Message, OK: result.State == v1beta2.StateReady,
	}
	if !out.Ready.OK && readiness.PullsNoImage(seen) {
		out.Ready.Reason = v1beta2.ReasonImagePull
	}
	if known.handingOver != "" {
		out = up.addHandover(known, out)
	}
	if out.Ready.OK {
		if known.pendingMoves != "" {
			out.Ready.Message += ", " + known.pendingMoves
		}
		known.pendingGeneration, known.checks = 0, 0
		if !watched {
			out.Again = shortestDelay(out.Again, 2*up.lookInterval)
		}
		out.Again = shortestDelay(out.Again, heldBack, up.resync-up.now().Sub(known.checkedAt))
		return out, nil
	}
	return up.pacer.notReady(m, known, out, heldBack), nil
}

// addHandover adds the wait for other modules to a ready module's message. A short wait is normal while both modules
// are upgraded. After the ready timeout, the state is Warning, unless the other modules only wait for their upgrade.
func (up *upgrader) addHandover(known *memo, out outcome.Outcome) outcome.Outcome {
	out.Again = shortestDelay(out.Again, known.handOverAgain)
	if !out.Ready.OK || known.handOverAgain <= handOverInterval {
		return out
	}
	if since := known.handOverSince; !since.IsZero() && up.now().Sub(since) > up.pacer.readyTimeout {
		out.State = v1beta2.StateWarning
		out.Ready = outcome.Finding{Reason: string(out.State), Message: known.handingOver}
		return out
	}
	out.Ready.Message += ", " + known.handingOver
	return out
}
