package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// applier writes a plan's objects.
//
// Server-side apply needs one request per object, without a dry run or a read. The API server does not write
// unchanged objects, and its response shows whether an object changed (see drift.Fields).
type applier struct {
	planner      *planner
	ledger       *ledger
	watches      *drift.Watches
	fieldManager string
	now          func() time.Time
}

// applyPlan applies a plan stage by stage and returns the changed objects. wait is the reason why the next stage must
// wait, or "". An object that the API server rejects does not block other objects.
func (ap *applier) applyPlan(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan, seen object.Keys,
) (applied []guard.Key, wait string, err error) {
	a := ap.planner.accounts.Of(m)
	var refused []error
	if err := ap.applyShared(ctx, a, m, p); err != nil {
		if refused = append(refused, err); isRetriedFirst(err) {
			return nil, "", err
		}
	}
	defined := planning.DefinedGroups(p)
	ap.watches.StartAll(p.Inventory, defined)
	for _, stage := range p.Stages {
		failed := account.FailedKeys(errors.Join(refused...))
		stage = slices.DeleteFunc(slices.Clone(stage), func(o *unstructured.Unstructured) bool {
			if p.IsDefinedBy(o, failed) {
				return true // the CRD's error is the cause
			}
			err := ap.unlistable(ctx, a, object.ResourceOf(o))
			if err != nil {
				refused = append(refused, account.ObjectError{Key: guard.KeyOf(o), Err: err})
			}
			return err != nil
		})
		if len(stage) == 0 {
			continue
		}
		inPlace, err := ap.watches.Await(ctx, object.ResourcesOf(stage), defined)
		switch {
		case meta.IsNoMatchError(err) && len(refused) > 0:
			return applied, "", errors.Join(refused...)
		case meta.IsNoMatchError(err):
			return applied, "waiting for the API server to serve " + err.Error(), nil
		case err != nil:
			return applied, "", errors.Join(append(refused, err)...)
		case !inPlace:
			return applied, "waiting for watches to start", nil
		}
		changed, err := ap.applyStage(ctx, m, known, stage, p, seen)
		applied = append(applied, changed...)
		if err != nil {
			if refused = append(refused, err); isRetriedFirst(err) {
				return applied, "", err
			}
		}
		failed = account.FailedKeys(err)
		stage = slices.DeleteFunc(stage, func(o *unstructured.Unstructured) bool { return failed.Has(guard.KeyOf(o)) })
		if wait, err := ap.unestablished(ctx, a, known, stage); err != nil || wait != "" && len(refused) == 0 {
			return applied, wait, err
		}
	}
	if err := errors.Join(refused...); err != nil && !planning.IsLastApplied(m) {
		return applied, "", errors.Join(err, applyInterceptors(ctx, a, p))
	}
	return applied, "", errors.Join(refused...)
}

// isRetriedFirst reports whether an error must be retried before other objects are applied.
func isRetriedFirst(err error) bool { return account.IsTemporary(err) && !account.IsTransient(err) }

// applyShared applies labels to shared namespaces. A namespace that the API server rejects does not block the others.
func (ap *applier) applyShared(ctx context.Context, a *account.Account, m *v1beta2.Manifest, p planning.Plan) error {
	var refused []error
	for _, o := range p.Labeled() {
		if _, err := a.Apply(ctx, o, ap.sharedOwner(m)); err != nil {
			refused = append(refused, account.ObjectError{Key: guard.KeyOf(o), Err: err})
		}
	}
	return errors.Join(refused...)
}

// sharedOwner returns the field manager for shared namespaces. Each module has its own field manager, so that it owns
// only its own labels on a shared namespace.
func (ap *applier) sharedOwner(m *v1beta2.Manifest) client.FieldOwner {
	return client.FieldOwner(ap.fieldManager + "/" + m.ModuleLabel())
}

// applyStage applies a stage's objects and returns the changed objects. An object that the API server rejects does not
// block the others. seen contains the objects that watches reported as changed.
func (ap *applier) applyStage(
	ctx context.Context, m *v1beta2.Manifest, known *memo, stage []*unstructured.Unstructured, p planning.Plan,
	seen object.Keys,
) ([]guard.Key, error) {
	a := ap.planner.accounts.Of(m)
	isSettled := func(o *unstructured.Unstructured) bool { return ap.isSettled(known, o) }
	stage = slices.DeleteFunc(slices.Clone(stage), isSettled)
	stage, err := ap.withoutCompleted(ctx, m, stage, seen)
	if err != nil {
		return nil, err
	}
	desired, err := ap.keepLive(ctx, a, known, stage, p)
	if err != nil {
		return nil, err
	}
	var applied []guard.Key
	var refused []error
	unanswered := map[schema.GroupKind]int{}
	for n, o := range desired {
		k := guard.KeyOf(o)
		if unanswered[k.GroupKind()] >= maxUnresponsive {
			continue
		}
		before, err := ap.fieldsBeforeApply(ctx, a, o, p)
		var live *unstructured.Unstructured
		if err == nil {
			live, err = a.ApplyAndTake(ctx, o)
		}
		if account.IsUnserved(err) {
			err = a.ExplainUnserved(k.GroupKind(), err)
		}
		if err != nil {
			if isRetriedFirst(err) {
				return applied, errors.Join(append(refused, account.ObjectError{Key: k, Err: err})...)
			}
			if account.IsTransient(err) {
				unanswered[k.GroupKind()]++
			}
			refused = append(refused, account.ObjectError{Key: k, Err: err})
			continue
		}
		if hasTTL(o) {
			if err := ap.ledger.addStartedJob(ctx, m, k); err != nil {
				return applied, errors.Join(append(refused, err)...)
			}
		}
		if ap.recordResponse(known, o, live) != before {
			applied = append(applied, k)
		}
		if o != stage[n] {
			// The applied object contains live values, which other field managers can change, so compare it again next
			// time.
			delete(known.settledObjects, k)
		}
	}
	return applied, errors.Join(refused...)
}

// applyInterceptors applies the plan's webhooks, policies and APIServices that already exist in the cluster. An
// existing one can be broken, and the new version can correct it. applyInterceptors returns only temporary errors.
func applyInterceptors(ctx context.Context, a *account.Account, p planning.Plan) error {
	for _, o := range slices.Concat(p.Stages[:]...) {
		if !object.Intercepts(o.GroupVersionKind().GroupKind()) {
			continue
		}
		live, err := a.Metadata(ctx, object.ResourceOf(o))
		if err == nil && live != nil {
			_, err = a.ApplyAndTake(ctx, o)
		}
		if err != nil && account.IsTemporary(err) {
			return err
		}
	}
	return nil
}

// unlistable returns the reason why the API server cannot list a kind, or nil if watching this kind works. It sends its
// own list request, because the watch retries without reporting an error.
func (ap *applier) unlistable(ctx context.Context, a *account.Account, r v1beta2.Resource) error {
	if !ap.watches.Unsynced(r) {
		return nil
	}
	return a.ListError(ctx, r)
}

// unestablished waits up to drift.MaxWait until the API server serves a stage's CRDs. It returns a message about the
// first CRD that is not served.
func (ap *applier) unestablished(
	ctx context.Context, a *account.Account, known *memo, stage []*unstructured.Unstructured,
) (string, error) {
	started, waited := time.Now(), false
	for _, o := range stage {
		k := guard.KeyOf(o)
		if !guard.IsCRD(k.GroupKind()) || known.isReady(k, ap.watches.Version(object.ResourceOf(o))) {
			continue
		}
		live := known.freshObjects[k]
		for {
			if live == nil {
				var err error
				if live, err = a.Get(ctx, object.ResourceOf(o)); err != nil {
					return "", err
				}
				known.cacheFresh(k, live)
			}
			state, message := readiness.ObjectState(readiness.Observation{Key: k, Object: live})
			if state == v1beta2.StateReady {
				break
			}
			if live == nil || time.Since(started) > drift.MaxWait {
				return fmt.Sprintf("waiting for %s: %s", k, message), nil
			}
			ap.watches.AwaitChange(ctx, object.ResourceOf(o), live.GetResourceVersion())
			live, waited = nil, true
		}
	}
	if waited {
		pause.Sleep(ctx, crdServeDelay)
	}
	return "", nil
}

// maxUnresponsive limits how many objects of one kind the agent tries to apply while the API server, a webhook or an
// aggregated API does not respond for this kind.
const maxUnresponsive = 3

// crdServeDelay is the usual time until the API server serves the kind of a new CRD. A watch that starts earlier fails
// once.
const crdServeDelay = 200 * time.Millisecond

// A Job or a Pod without a controller runs once per module version. Kubernetes deletes a completed Job after its TTL,
// and completed Pods if there are many. If the agent created such an object again, a migration could run twice. The
// Manifest's record therefore contains completed Jobs that were deleted, and completed Pods. A watch shows the
// completion of a Job, but not of a Pod, so the agent records a completed Pod when it reads the Pod's status. A Job can
// also complete and disappear while the agent does not run, so the record contains the started Jobs with a TTL.

// recordCompleted records the Jobs that completed and were deleted according to their watch. It ignores Jobs that the
// agent itself deleted to create them again, because they completed for an earlier version.
func (ap *applier) recordCompleted(ctx context.Context, m *v1beta2.Manifest) error {
	name := client.ObjectKeyFromObject(m)
	taken, jobs := ap.watches.TakeCompleted(name), object.Keys{}
	recreated := record.ReadUnverified(m).Recreated
	for k, uid := range taken {
		if recreated == nil || !slices.Contains(recreated.Objects, uid) {
			jobs[k] = struct{}{}
		}
	}
	err := ap.ledger.addCompletedJobs(ctx, m, jobs)
	if err != nil {
		for k, uid := range taken {
			ap.watches.MarkCompleted(name, k, uid)
		}
	}
	return err
}

// withoutCompleted returns a stage without the Jobs and Pods that completed for this version. It also omits a Job that
// has a TTL, was applied before and does not exist, because Kubernetes deletes such a Job after its completion. It
// keeps such a Job if seen contains the Job, because another client may have deleted the Job.
func (ap *applier) withoutCompleted(
	ctx context.Context, m *v1beta2.Manifest, stage []*unstructured.Unstructured, seen object.Keys,
) ([]*unstructured.Unstructured, error) {
	completed, started, expired := planning.CompletedJobs(m), planning.StartedJobs(m), object.Keys{}
	// While a version is being applied, the inventory already contains Jobs that were not created yet.
	isApplied, before := planning.IsLastApplied(m), object.KeysOf(m.Status.Synced)
	var left []*unstructured.Unstructured
	for _, o := range stage {
		k := guard.KeyOf(o)
		if k.GroupKind() == object.JobKind && completed.Has(k) {
			continue
		}
		expires := hasTTL(o) && (started.Has(k) || isApplied && before.Has(k)) && !seen.Has(k)
		if expires || completed.Has(k) {
			live, err := ap.planner.accounts.Of(m).Metadata(ctx, object.ResourceOf(o))
			if err != nil {
				return nil, err
			}
			if live == nil {
				expired[k] = struct{}{}
				continue
			}
		}
		left = append(left, o)
	}
	return left, ap.ledger.addCompletedJobs(ctx, m, expired)
}

// hasTTL reports whether an object is a Job that Kubernetes deletes after its end.
func hasTTL(o *unstructured.Unstructured) bool {
	_, has, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
	return has && guard.KeyOf(o).GroupKind() == object.JobKind
}

// keepLive returns copies of objects in which ignored fields have their live values. In autoscaled workloads,
// spec.replicas also has its live value. In an expanded PersistentVolumeClaim, the requested size has its live value,
// because Kubernetes does not shrink volumes.
func (ap *applier) keepLive(
	ctx context.Context, a *account.Account, known *memo, stage []*unstructured.Unstructured, p planning.Plan,
) ([]*unstructured.Unstructured, error) {
	kept, dropped := slices.Clone(stage), object.KeysOf(p.Prune)
	for n, o := range stage {
		pointers, err := content.IgnoredFields(o)
		if err != nil {
			return nil, err
		}
		replicas, scalable, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		isClaim := o.GroupVersionKind().GroupKind() == object.ClaimKind
		if len(pointers) == 0 && !scalable && !isClaim || p.Absent.Has(guard.KeyOf(o)) {
			continue
		}
		live, err := a.Get(ctx, object.ResourceOf(o))
		if live == nil || err != nil {
			if err != nil && !account.IsUnconverted(err) {
				return nil, err
			}
			// Skip a missing or unreadable object. If it is unreadable, applying it returns the same error.
			continue
		}
		if now := object.Integer(live, 1, "spec", "replicas"); scalable && now != replicas {
			scaled, err := ap.planner.accounts.Own().IsAutoscaled(ctx, object.ResourceOf(o), now, dropped)
			if err := known.recordRead(readAutoscalers, err); err != nil {
				return nil, err
			}
			if scaled {
				pointers = append(pointers, content.Pointer{"spec", "replicas"})
			}
		}
		if size := requestedSize(live); isClaim && size.Cmp(requestedSize(o)) > 0 {
			pointers = append(pointers, requestPath)
		}
		if len(pointers) == 0 {
			continue
		}
		kept[n] = o.DeepCopy()
		for _, p := range pointers {
			planning.TakeLive(kept[n], live, p, ap.fieldManager)
		}
	}
	return kept, nil
}

var requestPath = content.Pointer{"spec", "resources", "requests", "storage"}

// requestedSize returns the requested size of a PersistentVolumeClaim, or 0 if it is missing or invalid.
func requestedSize(claim *unstructured.Unstructured) resource.Quantity {
	value, _, _ := unstructured.NestedFieldNoCopy(claim.Object, requestPath...)
	size, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return resource.Quantity{}
	}
	return size
}
