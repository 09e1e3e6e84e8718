package install

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
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
	var out outcome
	switch {
	case !m.DeletionTimestamp.IsZero():
		out, err = i.remove(ctx, m)
	case i.records.IsUnmanaged(m):
		out = unmanaged(m)
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
func next(m *v1beta2.Manifest, known memo, changed keys, now time.Time, resync time.Duration) step {
	switch {
	case !installed(m), known.checked != m.Generation, known.images != m.Annotations[v1beta2.AnnotationImages],
		known.values != m.Annotations[v1beta2.AnnotationValues],
		known.inherited != record.Claims(m).Inherited, now.Sub(known.checkedAt) >= resync,
		hasWrongRecord(m) && !known.recordFailed:
		return stepApply
	case known.held != "" && now.Sub(known.checkedAt) >= known.heldFor,
		known.handingOver != "" && now.Sub(known.checkedAt) >= handOverInterval:
		return stepApply
	case changed.overlaps(known.dropped):
		// A changed object that this module does not need anymore may now belong to another module.
		return stepApply
	case len(changed) > 0:
		return stepCorrect
	}
	return stepCheck
}

// installed reports whether the current generation of a Manifest was applied completely.
func installed(m *v1beta2.Manifest) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == m.Generation
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

func (i *Installer) install(ctx context.Context, m *v1beta2.Manifest) (outcome, error) {
	if controllerutil.AddFinalizer(m, v1beta2.FinalizerManifest) {
		before := m.DeepCopy()
		controllerutil.RemoveFinalizer(before, v1beta2.FinalizerManifest)
		if err := i.cluster.Patch(ctx, m,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return outcome{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	known, name := i.remembered(m), client.ObjectKeyFromObject(m)
	known.fresh = nil
	if err := i.recordCompleted(ctx, m); err != nil {
		return outcome{}, err
	}
	changed := i.watches.take(name)
	changed.keepOnly(i.kept(m)) // ignore changes of objects that the module does not contain
	todo := next(m, *known, changed, i.now(), i.Resync)
	var heldBack time.Duration
	if todo == stepCorrect {
		if heldBack = known.holdBack(i.now()); heldBack > 0 {
			i.watches.giveBack(name, changed)
			todo = stepCheck
		}
	}
	out := outcome{inventory: m.Status.Synced}
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
		if err != nil || out.state != "" {
			i.watches.giveBack(name, changed)
			return out, err
		}
	}
	return i.addReadiness(ctx, m, known, out, heldBack)
}

// kept returns the objects whose drift the agent corrects: the inventory and the default CR.
func (i *Installer) kept(m *v1beta2.Manifest) keys {
	kept := keysOf(m.Status.Synced)
	if r, ok := i.defaultCR(m); ok {
		kept[keyOf(r)] = struct{}{}
	}
	return kept
}

func (i *Installer) addReadiness(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out outcome, heldBack time.Duration,
) (outcome, error) {
	seen, watched, err := i.observe(ctx, m, known, out.inventory)
	if err != nil {
		return outcome{}, err
	}
	result := moduleState(seen)
	if known.held != "" && result.state == v1beta2.StateReady {
		result = verdict{v1beta2.StateWarning, known.held}
	}
	out.state = result.state
	out.ready = finding{reason: string(result.state), message: result.message, ok: result.state == v1beta2.StateReady}
	if !out.ready.ok && pullsNoImage(seen) {
		out.ready.reason = v1beta2.ReasonImagePull
	}
	if known.handingOver != "" {
		out.again = soonest(out.again, handOverInterval)
	}
	if out.ready.ok {
		known.pending, known.checks = 0, 0
		if !watched {
			out.again = soonest(out.again, 2*i.LookInterval)
		}
		out.again = soonest(out.again, heldBack, i.Resync-i.now().Sub(known.checkedAt))
		return out, nil
	}
	out.again = soonest(out.again, known.nextCheck(m.Generation, i.now(), i.LookInterval), heldBack)
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
