package install

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Reconcile runs the next step for one Manifest and writes its status.
func (i *Installer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m, err := i.read(ctx, req)
	if err != nil || m == nil || m.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True ||
		record.Claims(m).Restoring {
		return ctrl.Result{}, err
	}
	defer i.seen(m)
	var out outcome.Outcome
	switch {
	case !m.DeletionTimestamp.IsZero():
		out, err = i.remove(ctx, m)
	case m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True:
		out = outcome.Unmanaged(m)
	default:
		out, err = i.install(ctx, m)
	}
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the agent is stopping
	}
	if apierrors.IsForbidden(err) {
		out, err = i.denied(m, err), nil
	}
	if err != nil {
		i.recordRetry(ctx, m, err)
		return ctrl.Result{}, fmt.Errorf("reconcile Manifest %s: %w", req.Name, err)
	}
	return i.record(ctx, m, out)
}

// read returns a Manifest, or nil if it does not exist. It uses the cached Manifest only if it has the version that
// this process last read or wrote. An older Manifest would have an older inventory, and the agent would lose track of
// objects.
func (i *Installer) read(ctx context.Context, req ctrl.Request) (*v1beta2.Manifest, error) {
	var m v1beta2.Manifest
	if version := i.version(req.NamespacedName); version != "" {
		if err := i.cached.Get(ctx, req.NamespacedName, &m); err == nil && m.ResourceVersion == version {
			return &m, nil
		}
		m = v1beta2.Manifest{}
	}
	if err := i.cluster.Get(ctx, req.NamespacedName, &m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			i.forget(req.NamespacedName)
			return nil, nil
		}
		return nil, err
	}
	return &m, nil
}

// step is the next step for a Manifest.
type step int

const (
	stepCheck   step = iota // check whether the objects are ready
	stepCorrect             // apply the changed objects, which corrects drift
	stepApply               // compare and apply all objects
)

// heldInterval is the interval between two attempts to delete a pruned object.
const heldInterval = 5 * time.Second

// next returns the next step for a Manifest. The agent compares all objects after a change of the Manifest, after a
// start of the agent, and at the resync interval. It also does so while objects wait for deletion, or if the Manifest's
// record of the applied version is wrong.
func next(m *v1beta2.Manifest, known memo, changed object.Keys, now time.Time, resync time.Duration) step {
	switch {
	case !planning.Installed(m), known.checked != m.Generation, known.images != m.Annotations[v1beta2.AnnotationImages],
		known.values != m.Annotations[v1beta2.AnnotationValues],
		known.inherited != record.Claims(m).Inherited, now.Sub(known.checkedAt) >= resync,
		planning.HasWrongRecord(m) && !known.recordFailed:
		return stepApply
	case known.held != "" && now.Sub(known.checkedAt) >= known.heldFor,
		known.handingOver != "" && now.Sub(known.checkedAt) >= handOverInterval:
		return stepApply
	case changed.Overlaps(known.dropped):
		// A changed object that this module does not need anymore may now belong to another module.
		return stepApply
	case len(changed) > 0:
		return stepCorrect
	}
	return stepCheck
}

// holdBack returns the delay until the next drift correction. The delay increases while another client keeps changing
// the corrected values back.
func (k memo) holdBack(now time.Time) time.Duration {
	const patience = 5
	if k.streak < patience {
		return 0
	}
	wait := min(time.Second<<min(k.streak-patience, 10), 5*time.Minute)
	return max(0, wait-now.Sub(k.corrected))
}

func (k *memo) countCorrection(now time.Time) {
	if now.Sub(k.corrected) > max(time.Minute, 2*time.Second<<min(k.streak, 10)) {
		k.streak = 0
	}
	k.streak++
	k.corrected = now
}

func (i *Installer) install(ctx context.Context, m *v1beta2.Manifest) (outcome.Outcome, error) {
	if controllerutil.AddFinalizer(m, v1beta2.FinalizerManifest) {
		before := m.DeepCopy()
		controllerutil.RemoveFinalizer(before, v1beta2.FinalizerManifest)
		if err := i.cluster.Patch(ctx, m,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return outcome.Outcome{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	known, name := i.remembered(m), client.ObjectKeyFromObject(m)
	known.fresh = nil
	if err := i.recordCompleted(ctx, m); err != nil {
		return outcome.Outcome{}, err
	}
	changed := i.watches.TakeChanged(name)
	changed.KeepOnly(i.kept(m)) // ignore changes of objects that the module does not contain
	todo := next(m, *known, changed, i.now(), i.Resync)
	var heldBack time.Duration
	if todo == stepCorrect {
		if heldBack = known.holdBack(i.now()); heldBack > 0 {
			i.watches.Restore(name, changed)
			todo = stepCheck
		}
	}
	out := outcome.Outcome{Inventory: m.Status.Synced}
	if todo != stepCheck {
		var err error
		known.tryAgainAfter(changed)
		if refused := known.stillRefused(m, i.now()); refused != nil && todo == stepApply {
			out = *refused
		} else {
			out, err = i.apply(ctx, m, known, todo, changed)
		}
		if err == nil && mustCorrectApplied(m, out) {
			changed = i.correctApplied(ctx, m, known, changed)
		}
		if err != nil || out.State != "" {
			i.watches.Restore(name, changed)
			return out, err
		}
	}
	return i.addReadiness(ctx, m, known, out, heldBack)
}

// kept returns the objects whose drift the agent corrects: the inventory and the default CR.
func (i *Installer) kept(m *v1beta2.Manifest) object.Keys {
	kept := object.KeysOf(m.Status.Synced)
	if r, ok := i.defaultCR(m); ok {
		kept[object.KeyOf(r)] = struct{}{}
	}
	return kept
}

func (i *Installer) addReadiness(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out outcome.Outcome, heldBack time.Duration,
) (outcome.Outcome, error) {
	seen, watched, err := i.observe(ctx, m, known, out.Inventory)
	if err != nil {
		return outcome.Outcome{}, err
	}
	result := readiness.ModuleState(seen)
	if known.held != "" && result.State == v1beta2.StateReady {
		result = readiness.Verdict{State: v1beta2.StateWarning, Message: known.held}
	}
	out.State = result.State
	out.Ready = outcome.Finding{Reason: string(result.State), Message: result.Message, OK: result.State == v1beta2.StateReady}
	if !out.Ready.OK && readiness.PullsNoImage(seen) {
		out.Ready.Reason = v1beta2.ReasonImagePull
	}
	if known.handingOver != "" {
		out.Again = soonest(out.Again, handOverInterval)
	}
	if out.Ready.OK {
		known.pending, known.checks = 0, 0
		if !watched {
			out.Again = soonest(out.Again, 2*i.LookInterval)
		}
		out.Again = soonest(out.Again, heldBack, i.Resync-i.now().Sub(known.checkedAt))
		return out, nil
	}
	out.Again = soonest(out.Again, known.nextCheck(m.Generation, i.now(), i.LookInterval), heldBack)
	return i.applyReadyTimeout(known, out), nil
}

// nextCheck returns the delay until the next check of a module that is not ready or not removed yet. The delay doubles
// with each check, up to slowest.
func (k *memo) nextCheck(generation int64, now time.Time, slowest time.Duration) time.Duration {
	if k.pending != generation {
		k.pending, k.pendingSince, k.checks = generation, now, 0
	}
	k.checks++
	return min(200*time.Millisecond<<min(k.checks-1, 10), slowest)
}

// soonest returns the shortest positive duration, or 0 if no duration is positive.
func soonest(durations ...time.Duration) time.Duration {
	var shortest time.Duration
	for _, d := range durations {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}
