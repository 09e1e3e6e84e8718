package install

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// apply applies the content of a Manifest. If todo is stepCorrect, it applies only the changed objects. The outcome has
// a state only if the apply failed or must wait.
func (i *Installer) apply(
	ctx context.Context, m *v1beta2.Manifest, known *memo, todo step, changed object.Keys,
) (outcome.Outcome, error) {
	started, wasInstalled := i.now(), planning.Installed(m)
	p, out, err := i.prepare(ctx, m, known, todo, changed)
	if err != nil || out.State != "" {
		return out, err
	}
	if todo == stepApply {
		if err := i.pruneInterceptors(ctx, m, p); err != nil {
			return outcome.Outcome{}, err
		}
	}
	applied, wait, err := i.write(ctx, m, known, p, wasInstalled, changed)
	if wasInstalled && len(applied) > 0 {
		i.recordDrift(ctx, m, applied)
		known.countCorrection(i.now())
	}
	if err != nil {
		return i.refused(m, known, out, p, err)
	}
	if wait == "" && len(p.Unread) > 0 {
		wait = p.UnreadText()
	}
	if wait != "" {
		out = i.waiting(m, known, out, wait)
		// Keep the status of an installed module. Otherwise, each start of the agent would show the module as
		// Processing until its watches run.
		out.KeepStatus = wasInstalled && out.State == v1beta2.StateProcessing
		return out, nil
	}
	objectsApplied.WithLabelValues(m.Module()).Add(float64(len(applied)))
	if todo == stepCorrect {
		return out, nil
	}
	if out, err = i.prune(ctx, m, known, p, out); err != nil {
		return outcome.Outcome{}, err
	}
	if problem := p.LeftOut(); problem != nil {
		out.Installation = problem
		return i.failed(m, known, out), nil
	}
	if err := i.recordApplied(ctx, m, known); err != nil {
		return outcome.Outcome{}, err
	}
	applyDuration.WithLabelValues(m.Module()).Observe(i.now().Sub(started).Seconds())
	known.checked, known.checkedAt = m.Generation, i.now()
	out.Installation = &outcome.Finding{
		OK: true, Reason: v1beta2.ReasonApplied, Message: fmt.Sprintf("%d objects are applied", len(p.Inventory)),
	}
	return out, nil
}

// prepare plans the apply, checks the plan, and writes the planned objects to the inventory.
func (i *Installer) prepare(
	ctx context.Context, m *v1beta2.Manifest, known *memo, todo step, changed object.Keys,
) (planning.Plan, outcome.Outcome, error) {
	p, problem, err := i.planFor(ctx, m, todo, changed)
	if err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	if problem != nil {
		out := i.failed(m, known, outcome.Outcome{Inventory: m.Status.Synced, Resources: problem})
		out.Untouched = true
		return planning.Plan{}, out, nil
	}
	known.images, known.values = m.Annotations[v1beta2.AnnotationImages], m.Annotations[v1beta2.AnnotationValues]
	known.inherited = record.Claims(m).Inherited
	out := outcome.Outcome{Inventory: m.Status.Synced, Images: &p.Images, Resources: &p.Resources}
	if todo != stepApply {
		known.forgetReady(p)
		return p, out, nil
	}
	if i.now().Sub(known.checkedAt) >= i.Resync {
		known.settled = nil // at the resync interval, compare all objects with the cluster
	}
	out.Fields = i.fieldsOf(m, p)
	if out.Rights, problem, err = i.check(ctx, m, &p); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	if problem != nil {
		out.Installation = problem
		out = i.failed(m, known, out)
		out.Untouched, out.Forbidden = true, true
		return planning.Plan{}, out, nil
	}
	tried, err := i.dryRunWithFix(ctx, m, known, p)
	if err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	p.Recreate = tried.recreate
	switch {
	case tried.problem == nil:
	case record.Claims(m).Applied == nil: // a first installation applies the objects that the API server accepts
		p.Refused = tried.problem
	default:
		out.Untouched = !planning.IsBegun(m)
		out.Installation = tried.problem
		out = i.failed(m, known, out)
		known.refuse(m, out, i.now(), tried.immutable)
		return planning.Plan{}, out, nil
	}
	if err := i.begin(ctx, m, known); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	i.plans.Keep(client.ObjectKeyFromObject(m), planning.Input(m, i.owner(m)), p)
	p.LeaveUnread()
	// Write the inventory before any object, so that a crash does not orphan objects.
	if out, err = i.announce(ctx, m, out, object.Union(p.Inventory, m.Status.Synced)); err != nil {
		return planning.Plan{}, outcome.Outcome{}, err
	}
	return p, out, nil
}

// check checks a plan before the installer writes any of its objects. problem is the reason why the plan must not be
// applied. rights is the result of reviewing the permissions of the module's account.
func (i *Installer) check(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (rights, problem *outcome.Finding, err error) {
	if rights, problem, err = i.mayApply(ctx, m, *p); err != nil || problem != nil {
		return rights, problem, err
	}
	if problem, err = i.foreignObjects(ctx, m, p); err != nil || problem != nil {
		return rights, problem, err
	}
	problem, err = i.exposes(ctx, m, p)
	return rights, problem, err
}

// write applies a plan and creates the default CR. It returns the changed objects. wait is the reason why the rest of
// the plan must wait, or "".
func (i *Installer) write(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan, wasInstalled bool, seen object.Keys,
) ([]guard.Key, string, error) {
	if wait, err := i.recreate(ctx, m, p); err != nil || wait != "" {
		return nil, wait, err
	}
	applied, wait, err := i.applyPlan(ctx, m, known, p, seen)
	if err != nil || wait != "" {
		return applied, wait, err
	}
	created, wait, err := i.createDefaultCR(ctx, i.actor(m), i.owner(m), known, p)
	if created && wasInstalled {
		applied = append(applied, guard.KeyOf(p.DefaultCR))
	}
	return applied, wait, err
}

// refused handles errors of the API server during an apply. Temporary errors cause a retry. An error that the module
// causes sets its state to Error.
func (i *Installer) refused(m *v1beta2.Manifest, known *memo, out outcome.Outcome, p planning.Plan, err error) (outcome.Outcome, error) {
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
		return i.failed(m, known, out), nil
	case len(definite) == 0:
		// All errors are temporary. A typical cause is a webhook whose server is part of this module and does not run
		// yet.
		return i.waiting(m, known, out, "waiting for the API server to accept "+excerpt.FirstFew(temporary)), nil
	}
	out.Installation = &outcome.Finding{Reason: v1beta2.ReasonApplyFailed, Message: excerpt.FirstFew(append(definite, p.Unknown...))}
	if forbidden {
		out.Installation.Reason = v1beta2.ReasonForbidden
	}
	return i.failed(m, known, out), nil
}

// waiting returns an outcome with state Processing. If the module has been processing for longer than the ready
// timeout, the state is Error.
func (i *Installer) waiting(m *v1beta2.Manifest, known *memo, out outcome.Outcome, forWhat string) outcome.Outcome {
	out.State = v1beta2.StateProcessing
	out.Ready = outcome.Finding{Reason: v1beta2.ReasonInstalling, Message: forWhat}
	out.Again = known.nextCheck(m.Generation, i.now(), i.LookInterval)
	return i.applyReadyTimeout(known, out)
}

// applyReadyTimeout changes the state from Processing to Error if the module has been processing for longer than the
// ready timeout.
func (i *Installer) applyReadyTimeout(known *memo, out outcome.Outcome) outcome.Outcome {
	if out.State == v1beta2.StateProcessing && i.now().Sub(known.pendingSince) > i.ReadyTimeout {
		out.State = v1beta2.StateError
		if out.Ready.Reason != v1beta2.ReasonImagePull {
			out.Ready.Reason = v1beta2.ReasonTimeout
		}
		out.Ready = outcome.Finding{
			Reason: out.Ready.Reason, Message: fmt.Sprintf("not ready after %s: %s", i.ReadyTimeout, out.Ready.Message),
		}
	}
	return out
}

// failed returns an outcome in state Error. The next check is later than usual, because the error usually requires a
// change of the module or the cluster.
func (i *Installer) failed(m *v1beta2.Manifest, known *memo, out outcome.Outcome) outcome.Outcome {
	cause := out.Resources
	if out.Installation != nil {
		cause = out.Installation
	}
	out.State = v1beta2.StateError
	out.Ready = outcome.Finding{Reason: cause.Reason, Message: cause.Message}
	out.Again = known.nextCheck(m.Generation, i.now(), 4*i.LookInterval)
	return out
}

// plan renders the content of a Manifest and returns the plan. The finding is a problem that the module causes. All
// errors are temporary.
func (i *Installer) plan(ctx context.Context, m *v1beta2.Manifest) (planning.Plan, *outcome.Finding, error) {
	content, problem, err := i.renderer.Module(ctx, m, i.actor(m).Capabilities)
	if err != nil || problem != nil {
		return planning.Plan{}, problem, err
	}
	p, err := planning.Make(content.Objects, content.DefaultCR, m.Status.Synced, i.owner(m), i.actors[""].Scope)
	if err == nil && (m.Spec.CustomResourcePolicy == v1beta2.PolicyIgnore || !m.DeletionTimestamp.IsZero()) {
		p.DefaultCR = nil
	}
	if err != nil {
		if account.IsTemporary(err) {
			return planning.Plan{}, nil, err
		}
		return planning.Plan{}, &outcome.Finding{Reason: v1beta2.ReasonContentBroken, Message: err.Error()}, nil
	}
	if err := guard.Check(p.All(), i.Namespace); err != nil {
		return planning.Plan{}, &outcome.Finding{Reason: v1beta2.ReasonProtected, Message: err.Error()}, nil
	}
	for n, o := range p.Shared {
		p.Shared[n] = guard.NameAndLabels(o)
	}
	p.Resources, p.Images = outcome.Finding{OK: true, Reason: v1beta2.ReasonRendered,
		Message: fmt.Sprintf("content has %d objects", len(content.Objects))}, content.Images
	problem, err = i.claimed(ctx, m, &p)
	return p, problem, err
}

// planFor returns the plan for the next step: all objects for stepApply, otherwise the changed objects. It uses the
// cached plan if possible.
func (i *Installer) planFor(ctx context.Context, m *v1beta2.Manifest, todo step, changed object.Keys) (planning.Plan, *outcome.Finding, error) {
	if todo == stepApply {
		return i.plan(ctx, m)
	}
	if p, ok := i.plans.Changed(client.ObjectKeyFromObject(m), planning.Input(m, i.owner(m)), changed); ok {
		problem, err := i.claimed(ctx, m, &p)
		return p, problem, err
	}
	p, problem, err := i.plan(ctx, m)
	p.KeepOnly(changed)
	return p, problem, err
}

// claimed returns a conflict if another Manifest owns an object of the plan. It also records the objects that another
// Manifest owns but does not need anymore, so that this module can take them over.
func (i *Installer) claimed(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	others, err := i.others(ctx, m)
	if err != nil {
		return nil, err
	}
	takes, conflict, err := planning.ClaimedByOther(m, *p, others, i.defaultCR, i.releases(ctx))
	if err != nil || conflict == "" {
		p.Takes = takes
		return nil, err
	}
	return &outcome.Finding{Reason: v1beta2.ReasonConflict, Message: conflict}, nil
}

func (i *Installer) owner(m *v1beta2.Manifest) guard.Owner {
	component := m.Annotations[v1beta2.AnnotationFQDN]
	return guard.Owner{
		Mark: m.Namespace + "/" + m.Name, Module: m.ModuleLabel(), Namespace: i.Namespace,
		Inherits: takeover.Marks(m.Annotations[v1beta2.AnnotationKymas], component,
			m.ModuleLabel(), m.Module(), component),
	}
}

// mayDelete returns a function that reports whether the agent can delete an object in the inventory of a Manifest.
func (i *Installer) mayDelete(m *v1beta2.Manifest) func(*metav1.PartialObjectMetadata) bool {
	return i.owner(m).MayDelete(i.records.Read(m).Inherited != "")
}

// recordDrift records corrected objects in an Event, the log and metrics.
func (i *Installer) recordDrift(ctx context.Context, m *v1beta2.Manifest, corrected []guard.Key) {
	names := make([]string, len(corrected))
	for n, k := range corrected {
		names[n] = k.String()
		driftCorrected.WithLabelValues(m.Module(), k.Kind).Inc()
	}
	text := excerpt.FirstFew(names)
	log.FromContext(ctx).Info("reverted drift", "module", m.Module(), "objects", text)
	i.events.Eventf(m, nil, "Normal", v1beta2.ReasonDriftCorrected, "Correct", "reverted drift in %s", text)
}
