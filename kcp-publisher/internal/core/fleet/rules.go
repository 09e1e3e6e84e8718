package fleet

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// appliedWithin is the time that a reporting runtime has to apply and report the latest bundle.
	appliedWithin = 30 * time.Minute
	// A module that is still progressing after settledWithin is treated as stuck.
	settledWithin = time.Hour
	// While a runtime reports, the publisher records a report in the Kyma's status at least once in recordedWithin.
	recordedWithin = plan.MaxUnrecorded + time.Hour
	// deletedWithin is one hour longer than the publisher's default deletion timeout.
	deletedWithin = 25 * time.Hour
)

type found struct {
	situation Situation
	message   string
	// module and rollout are the names of the affected module and rollout. They can be empty.
	module, rollout string
	// wave replaces the placeholder WAVE in the advice. If advice is set, it replaces the default advice of the
	// situation.
	wave, advice string
	// since is the time when the problem began, or zero if unknown.
	since time.Time
}

// rules are called in this order, and the first finding becomes the cause. Problems that resolve by themselves come
// last. A rule returns nil if it finds no problem.
var rules = []func(*known) *found{
	suspended, notReconciled, unpublishable, unsealed, removalsHeld, commitHeld, unresolved, tamperedRegistry,
	reportRefused, neverReported, bundleRefused, silentRuntime, clockBehind, unsynced,
	unwritten, truncated, agentRolledBack, agentOutdated, takeoverWaits, brokenModule, failedCheck,
	notApplied, stuckModule, unexplained, deleting, lostInRegistry, pending, processingModule,
	notReady, certificateEnds, unwatched, awaitsWindow, held,
}

func suspended(k *known) *found {
	if !plan.Skipped(k.kyma) {
		return nil
	}
	f := &found{
		situation: Suspension, message: "publishing to the runtime is suspended by the label " +
			v1beta2.LabelSkipReconciliation,
	}
	if reason := k.kyma.Annotations[v1beta2.AnnotationSuspendReason]; reason != "" {
		f.message += ": " + reason
	}
	_, f.since = SuspendedBy(k.kyma)
	return f
}

// SuspendedBy returns the field manager that set the Kyma's suspension label, and the time of the field manager's last
// update. It returns "" and zero if unknown.
func SuspendedBy(kyma *v1beta2.Kyma) (string, time.Time) {
	for _, entry := range kyma.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+v1beta2.LabelSkipReconciliation+`"`) {
			return line(entry.Manager), entry.Time.Time
		}
	}
	return "", time.Time{}
}

func notReconciled(k *known) *found {
	if k.ready != nil {
		return nil
	}
	return &found{
		situation: NotLookedAt, message: "no publisher has reconciled this Kyma yet: check that one is running",
		since: k.kyma.CreationTimestamp.Time,
	}
}

func unpublishable(k *known) *found {
	if k.ready.Reason != v1beta2.ReasonPublishFailed {
		return nil
	}
	return of(fromPublish.situation(k.reasons().Publish), k.ready)
}

func unsealed(k *known) *found {
	if k.secrets == nil || k.secrets.Reason != v1beta2.ReasonNotSealed || k.secrets.Status == metav1.ConditionTrue {
		return nil
	}
	return of(fromSealing.situation(k.reasons().Secrets), k.secrets)
}

func removalsHeld(k *known) *found {
	if k.one || k.removals == nil || k.removals.Status == metav1.ConditionTrue {
		return nil
	}
	return of(RemovalHeld, k.removals)
}

func commitHeld(k *known) *found {
	if k.publishing == nil || k.publishing.Status == metav1.ConditionTrue {
		return nil
	}
	return of(CommitHeld, k.publishing)
}

func unresolved(k *known) *found {
	for i := range k.status {
		m := &k.status[i]
		if m.State != v1beta2.StateWarning && m.State != v1beta2.StateError {
			continue
		}
		if problem := k.moduleReasons(m.Name).Problem; problem != "" {
			return k.ofModule(fromProblem.situation(problem), m)
		}
	}
	return nil
}

func tamperedRegistry(k *known) *found {
	if k.registry == nil || k.registry.Status == metav1.ConditionTrue || isLost(k.registry) {
		return nil
	}
	return of(RegistryTampered, k.registry)
}

func lostInRegistry(k *known) *found {
	if k.registry == nil || k.registry.Status == metav1.ConditionTrue || !isLost(k.registry) {
		return nil
	}
	return of(RegistryLost, k.registry)
}

func isLost(registry *metav1.Condition) bool {
	return registry.Reason == v1beta2.ReasonBundleMissing || registry.Reason == v1beta2.ReasonBundleIncomplete
}

func reportRefused(k *known) *found {
	if !k.notReporting(v1beta2.ReasonReportRefused) {
		return nil
	}
	return of(fromReport.situation(k.reasons().Report), k.reporting)
}

func neverReported(k *known) *found {
	if k.reporting == nil || !k.notReporting(v1beta2.ReasonNeverReported) {
		return nil
	}
	f := of(NeverEnrolled, k.reporting)
	switch {
	case k.reasons().Report == v1beta2.Reason(reason.ReportUnreadable):
		f.situation = ReportUnreadable
	case k.carried:
		f.situation = NeverCarried
	}
	return f
}

func silentRuntime(k *known) *found {
	if k.notReporting(v1beta2.ReasonSilent) {
		f := of(SilentRuntime, k.reporting)
		f.since = plan.LastReportTime(k.kyma)
		switch {
		case k.reasons().Report == v1beta2.Reason(reason.ReportUnreadable):
			f.situation = ReportUnreadable
		case k.carried:
			f.situation = CarriedTooOld
		}
		return f
	}
	noted := plan.LastReportTime(k.kyma)
	if k.carried || noted.IsZero() || !plan.Reports(k.kyma) || k.now.Sub(noted) <= recordedWithin {
		return nil
	}
	return &found{situation: PublisherAbsent, since: noted,
		message: "the runtime was last recorded at " + noted.UTC().Format(time.RFC3339) +
			", but reporting runtimes are recorded every day: no publisher is reading reports"}
}

func clockBehind(k *known) *found {
	if !k.notReporting(v1beta2.ReasonClockBehind) {
		return nil
	}
	return of(RuntimeClockBehind, k.reporting)
}

func unsynced(k *known) *found {
	if k.synced == nil || k.synced.Status == metav1.ConditionTrue {
		return nil
	}
	switch k.synced.Reason {
	case v1beta2.ReasonStorageRefused:
		return of(BundleNotKept, k.synced)
	case v1beta2.ReasonPinsUnreadable:
		return of(RuntimePinsUnreadable, k.synced)
	}
	return of(ObjectRefused, k.synced)
}

func unwritten(k *known) *found {
	if k.secrets == nil || k.secrets.Reason != v1beta2.ReasonNotWritten || k.secrets.Status == metav1.ConditionTrue {
		return nil
	}
	return of(SecretsNotWritten, k.secrets)
}

func truncated(k *known) *found {
	if k.reporting == nil || k.reasons().Report != v1beta2.Reason(reason.RequestTruncated) {
		return nil
	}
	return of(ReportTruncated, k.reporting)
}

func agentRolledBack(k *known) *found {
	if k.agent == nil || k.agent.Status == metav1.ConditionTrue {
		return nil
	}
	return of(AgentRolledBack, k.agent)
}

// agentOutdated finds a bundle that lacks some content because the agent's version does not support it.
func agentOutdated(k *known) *found {
	if k.features == nil || k.features.Status == metav1.ConditionTrue {
		return nil
	}
	return of(AgentOutdated, k.features)
}

func takeoverWaits(k *known) *found {
	r := k.kyma.Status.Runtime
	if r == nil || r.Takeover == nil || r.Takeover.Message == "" {
		return nil
	}
	return &found{situation: TakeoverWaits, message: r.Takeover.Message}
}

func brokenModule(k *known) *found {
	var warned *v1beta2.ModuleStatus
	for i := range k.status {
		m := &k.status[i]
		switch {
		case m.State == v1beta2.StateError:
			return k.ofModule(fromModule.situation(k.moduleReasons(m.Name).Runtime), m)
		case m.State == v1beta2.StateWarning && warned == nil:
			warned = m
		}
	}
	if warned == nil {
		return nil
	}
	why := k.moduleReasons(warned.Name).Runtime
	if why == "" || why == v1beta2.Reason(reason.Other) {
		why = v1beta2.Reason(reason.ReportsWarning) // agents of older versions do not report a reason
	}
	return k.ofModule(fromModule.situation(why), warned)
}

func deleting(k *known) *found {
	if k.kyma.DeletionTimestamp.IsZero() {
		return nil
	}
	f := &found{
		situation: DeletionWaits, message: "the Kyma is being deleted and waits for its runtime to remove the modules",
		since: k.kyma.DeletionTimestamp.Time,
	}
	if m := k.firstUnready(); m != nil && m.Message != "" {
		f.message, f.module = f.message+": module "+m.Name+": "+m.Message, m.Name
	}
	if k.now.Sub(f.since) > deletedWithin {
		f.situation = DeletionOverdue
	}
	return f
}

func (k *known) unreported() *v1beta2.PublishedBundle {
	if k.accepted == nil || k.accepted.Status == metav1.ConditionTrue {
		return nil
	}
	return k.published()
}

// notApplied finds a bundle that a reporting runtime has not reported as applied within appliedWithin.
func notApplied(k *known) *found {
	published := k.unreported()
	if published == nil || k.accepted.Reason == v1beta2.ReasonCarried || !plan.Reports(k.kyma) ||
		k.now.Sub(published.Time.Time) <= appliedWithin {
		return nil
	}
	return &found{situation: BundleNotTaken, message: k.accepted.Message, since: published.Time.Time}
}

// pending finds a bundle that the runtime has not reported yet. It ignores the bundle if all modules are ready, because
// then the bundle changes no module.
func pending(k *known) *found {
	published := k.unreported()
	switch {
	case published == nil:
		return nil
	case k.accepted.Reason == v1beta2.ReasonCarried:
		return &found{situation: CarryPending, message: k.accepted.Message, since: published.Time.Time}
	case k.kyma.Status.State == v1beta2.StateReady:
		return nil
	}
	return &found{situation: BundlePending, message: k.accepted.Message, since: published.Time.Time}
}

// processing returns the first module that is not ready, and the time since which it is not ready, or zero if unknown.
func (k *known) processing() (*v1beta2.ModuleStatus, time.Time) {
	m := k.firstUnready()
	if m == nil || k.modules == nil || k.modules.Status == metav1.ConditionTrue {
		return m, time.Time{}
	}
	since := k.modules.LastTransitionTime.Time
	// The condition can be False for longer than this module, because another module set it to False earlier.
	if published := k.published(); published != nil && published.Time.After(since) {
		since = published.Time.Time
	}
	if last := k.kyma.Status.LastOperation; last != nil && last.LastUpdateTime.After(since) {
		since = last.LastUpdateTime.Time
	}
	return m, since
}

func stuckModule(k *known) *found {
	m, since := k.processing()
	if m == nil || since.IsZero() || k.now.Sub(since) <= settledWithin {
		return nil
	}
	f := k.ofModule(ModuleStuck, m)
	f.since = since
	return f
}

func processingModule(k *known) *found {
	m, since := k.processing()
	if m == nil {
		return nil
	}
	f := k.ofModule(ModuleProcessing, m)
	f.since = since
	return f
}

// unexplained finds a Kyma in state Error or Warning that no other rule explains. Otherwise, the runtime would count as
// healthy.
func unexplained(k *known) *found {
	if state := k.kyma.Status.State; k.one || k.ready.Status == metav1.ConditionTrue || state != v1beta2.StateError &&
		state != v1beta2.StateWarning {
		return nil
	}
	return of(Unexplained, k.ready)
}

// notReady finds a Kyma whose condition Ready is not True.
func notReady(k *known) *found {
	if k.one || k.ready.Status == metav1.ConditionTrue {
		return nil
	}
	return of(NotReady, k.ready)
}

func unwatched(k *known) *found {
	if k.watchers == nil || k.watchers.Reason != v1beta2.ReasonNotWatched || k.watchers.Status == metav1.ConditionTrue {
		return nil
	}
	return of(WatcherNotServed, k.watchers)
}

func awaitsWindow(k *known) *found {
	for i := range k.status {
		if m := &k.status[i]; m.Maintenance {
			situation := WindowAwaited
			if k.moduleReasons(m.Name).Runtime == v1beta2.Reason(reason.WindowMissing) {
				situation = WindowMissing
			}
			return &found{situation: situation, module: m.Name,
				message: "module " + m.Name + " stays at version " + m.Version + ": " + m.Message}
		}
	}
	return nil
}
