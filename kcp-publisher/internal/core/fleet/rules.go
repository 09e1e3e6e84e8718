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
	// applyTimeout is the time that a reporting runtime has to apply and report the latest bundle.
	applyTimeout = 30 * time.Minute
	// progressTimeout is the time after which a module that is still progressing counts as stuck.
	progressTimeout = time.Hour
	// deletionTimeout is one hour longer than the publisher's default deletion timeout.
	deletionTimeout = 25 * time.Hour
)

// rules contains the rules in the order of their calls. The first finding becomes the cause of the runtime's health. A
// rule returns nil if it does not find a problem. Rules for problems that resolve by themselves come last.
var rules = []func(*kymaState) *finding{
	findSuspended, findNotReconciled, findUnpublishable, findUnsealed, findRemovalsHeld, findCommitHeld, findUnresolved,
	findTamperedRegistry,
	findReportRefused, findNeverReported, findBundleRefused, findSilentRuntime, findClockBehind, findUnsynced,
	findUnwritten, findTruncated, findAgentRolledBack, findAgentOutdated, findTakeoverWaits, findFailedModule,
	findFailedCheck,
	findNotApplied, findStuckModule, findUnexplained, findDeleting, findLostInRegistry, findPending, findProcessingModule,
	findNotReady, findCertificateExpiry, findUnwatched, findAwaitsWindow, findHeld,
}

func findSuspended(k *kymaState) *finding {
	if !plan.IsSkipped(k.kyma) {
		return nil
	}
	f := &finding{
		situation: Suspension, message: "publishing to the runtime is suspended by the label " +
			v1beta2.LabelSkipReconciliation,
	}
	if reason := k.kyma.Annotations[v1beta2.AnnotationSuspendReason]; reason != "" {
		f.message += ": " + reason
	}
	_, f.startedAt = SuspendedBy(k.kyma)
	return f
}

// SuspendedBy returns the field manager that set the Kyma's suspension label, and the time of its last change to the
// Kyma. It returns "" and zero if the field manager is unknown.
func SuspendedBy(kyma *v1beta2.Kyma) (string, time.Time) {
	for _, entry := range kyma.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+v1beta2.LabelSkipReconciliation+`"`) {
			return cleanLine(entry.Manager), entry.Time.Time
		}
	}
	return "", time.Time{}
}

func findNotReconciled(k *kymaState) *finding {
	if k.ready != nil {
		return nil
	}
	return &finding{
		situation: NotLookedAt, message: "no publisher has reconciled this Kyma yet: check that one is running",
		startedAt: k.kyma.CreationTimestamp.Time,
	}
}

func findUnpublishable(k *kymaState) *finding {
	if k.ready.Reason != v1beta2.ReasonPublishFailed {
		return nil
	}
	return newFinding(fromPublish.situation(k.reasons().Publish), k.ready)
}

func findUnsealed(k *kymaState) *finding {
	if k.secrets == nil || k.secrets.Reason != v1beta2.ReasonNotSealed || k.secrets.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(fromSealing.situation(k.reasons().Secrets), k.secrets)
}

func findRemovalsHeld(k *kymaState) *finding {
	if k.isSingle || k.removals == nil || k.removals.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(RemovalHeld, k.removals)
}

func findCommitHeld(k *kymaState) *finding {
	if k.publishing == nil || k.publishing.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(CommitHeld, k.publishing)
}

func findUnresolved(k *kymaState) *finding {
	for i := range k.status {
		m := &k.status[i]
		if m.State != v1beta2.StateWarning && m.State != v1beta2.StateError {
			continue
		}
		if problem := k.moduleReasons(m.Name).Problem; problem != "" {
			return k.newModuleFinding(fromProblem.situation(problem), m)
		}
	}
	return nil
}

func findTamperedRegistry(k *kymaState) *finding {
	if k.registry == nil || k.registry.Status == metav1.ConditionTrue || isLost(k.registry) {
		return nil
	}
	return newFinding(RegistryTampered, k.registry)
}

func findLostInRegistry(k *kymaState) *finding {
	if k.registry == nil || k.registry.Status == metav1.ConditionTrue || !isLost(k.registry) {
		return nil
	}
	return newFinding(RegistryLost, k.registry)
}

func isLost(registry *metav1.Condition) bool {
	return registry.Reason == v1beta2.ReasonBundleMissing || registry.Reason == v1beta2.ReasonBundleIncomplete
}

func findReportRefused(k *kymaState) *finding {
	if !k.hasReportingReason(v1beta2.ReasonReportRefused) {
		return nil
	}
	return newFinding(fromReport.situation(k.reasons().Report), k.reporting)
}

func findNeverReported(k *kymaState) *finding {
	if k.reporting == nil || !k.hasReportingReason(v1beta2.ReasonNeverReported) {
		return nil
	}
	f := newFinding(NeverEnrolled, k.reporting)
	switch {
	case k.reasons().Report == v1beta2.Reason(reason.ReportUnreadable):
		f.situation = ReportUnreadable
	case k.carried:
		f.situation = NeverCarried
	}
	return f
}

func findSilentRuntime(k *kymaState) *finding {
	if k.hasReportingReason(v1beta2.ReasonSilent) {
		f := newFinding(SilentRuntime, k.reporting)
		f.startedAt = plan.LastReportTime(k.kyma)
		switch {
		case k.reasons().Report == v1beta2.Reason(reason.ReportUnreadable):
			f.situation = ReportUnreadable
		case k.carried:
			f.situation = CarriedTooOld
		}
		return f
	}
	if !plan.IsOutdated(k.kyma, k.now) {
		return nil
	}
	noted := plan.LastReportTime(k.kyma)
	return &finding{situation: PublisherAbsent, startedAt: noted,
		message: "the runtime's last recorded report arrived at " + noted.UTC().Format(time.RFC3339) +
			", but a report is recorded at least once a day: no publisher is reading reports"}
}

func findClockBehind(k *kymaState) *finding {
	if !k.hasReportingReason(v1beta2.ReasonClockBehind) {
		return nil
	}
	return newFinding(RuntimeClockBehind, k.reporting)
}

func findUnsynced(k *kymaState) *finding {
	if k.synced == nil || k.synced.Status == metav1.ConditionTrue {
		return nil
	}
	switch k.synced.Reason {
	case v1beta2.ReasonStorageRefused:
		return newFinding(BundleNotKept, k.synced)
	case v1beta2.ReasonPinsUnreadable:
		return newFinding(RuntimePinsUnreadable, k.synced)
	}
	return newFinding(ObjectRefused, k.synced)
}

func findUnwritten(k *kymaState) *finding {
	if k.secrets == nil || k.secrets.Reason != v1beta2.ReasonNotWritten || k.secrets.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(SecretsNotWritten, k.secrets)
}

func findTruncated(k *kymaState) *finding {
	if k.reporting == nil || k.reasons().Report != v1beta2.Reason(reason.RequestTruncated) {
		return nil
	}
	return newFinding(ReportTruncated, k.reporting)
}

func findAgentRolledBack(k *kymaState) *finding {
	if k.agent == nil || k.agent.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(AgentRolledBack, k.agent)
}

// findAgentOutdated finds a bundle that lacks some content because the agent's version does not support it.
func findAgentOutdated(k *kymaState) *finding {
	if k.features == nil || k.features.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(AgentOutdated, k.features)
}

func findTakeoverWaits(k *kymaState) *finding {
	r := k.kyma.Status.Runtime
	if r == nil || r.Takeover == nil || r.Takeover.Message == "" {
		return nil
	}
	return &finding{situation: TakeoverWaits, message: r.Takeover.Message}
}

func findFailedModule(k *kymaState) *finding {
	var warned *v1beta2.ModuleStatus
	for i := range k.status {
		m := &k.status[i]
		switch {
		case m.State == v1beta2.StateError:
			return k.newModuleFinding(fromModule.situation(k.moduleReasons(m.Name).Runtime), m)
		case m.State == v1beta2.StateWarning && warned == nil:
			warned = m
		}
	}
	if warned == nil {
		return nil
	}
	why := k.moduleReasons(warned.Name).Runtime
	if why == "" || why == v1beta2.Reason(reason.Other) {
		why = v1beta2.Reason(reason.ReportsWarning) // older agents do not report a reason
	}
	return k.newModuleFinding(fromModule.situation(why), warned)
}

func findDeleting(k *kymaState) *finding {
	if k.kyma.DeletionTimestamp.IsZero() {
		return nil
	}
	f := &finding{
		situation: DeletionWaits, message: "the Kyma is being deleted and waits for its runtime to remove the modules",
		startedAt: k.kyma.DeletionTimestamp.Time,
	}
	if m := k.firstUnready(); m != nil && m.Message != "" {
		f.message, f.module = f.message+": module "+m.Name+": "+m.Message, m.Name
	}
	if k.now.Sub(f.startedAt) > deletionTimeout {
		f.situation = DeletionOverdue
	}
	return f
}

func (k *kymaState) unreportedBundle() *v1beta2.PublishedBundle {
	if k.accepted == nil || k.accepted.Status == metav1.ConditionTrue {
		return nil
	}
	return k.published()
}

// findNotApplied finds a bundle that a reporting runtime has not reported as applied within applyTimeout.
func findNotApplied(k *kymaState) *finding {
	published := k.unreportedBundle()
	if published == nil || k.accepted.Reason == v1beta2.ReasonCarried || !plan.IsReporting(k.kyma) ||
		k.now.Sub(published.Time.Time) <= applyTimeout {
		return nil
	}
	return &finding{situation: BundleNotTaken, message: k.accepted.Message, startedAt: published.Time.Time}
}

// findPending finds a bundle that the runtime has not reported as applied yet. If the Kyma is ready, findPending
// ignores the bundle, because such a bundle does not change any module. It never ignores a bundle that operators
// still have to carry to the runtime.
func findPending(k *kymaState) *finding {
	published := k.unreportedBundle()
	switch {
	case published == nil:
		return nil
	case k.accepted.Reason == v1beta2.ReasonCarried:
		return &finding{situation: CarryPending, message: k.accepted.Message, startedAt: published.Time.Time}
	case k.kyma.Status.State == v1beta2.StateReady:
		return nil
	}
	return &finding{situation: BundlePending, message: k.accepted.Message, startedAt: published.Time.Time}
}

// firstProcessing returns the first module that is not ready, and the time at which it stopped being ready. The time is
// zero if it is unknown.
func (k *kymaState) firstProcessing() (*v1beta2.ModuleStatus, time.Time) {
	m := k.firstUnready()
	if m == nil || k.modules == nil || k.modules.Status == metav1.ConditionTrue {
		return m, time.Time{}
	}
	since := k.modules.LastTransitionTime.Time
	// The condition may be False because another module was not ready before this one. Therefore, start no earlier than
	// the latest bundle.
	if published := k.published(); published != nil && published.Time.After(since) {
		since = published.Time.Time
	}
	if last := k.kyma.Status.LastOperation; last != nil && last.LastUpdateTime.After(since) {
		since = last.LastUpdateTime.Time
	}
	return m, since
}

func findStuckModule(k *kymaState) *finding {
	m, since := k.firstProcessing()
	if m == nil || since.IsZero() || k.now.Sub(since) <= progressTimeout {
		return nil
	}
	f := k.newModuleFinding(ModuleStuck, m)
	f.startedAt = since
	return f
}

func findProcessingModule(k *kymaState) *finding {
	m, since := k.firstProcessing()
	if m == nil {
		return nil
	}
	f := k.newModuleFinding(ModuleProcessing, m)
	f.startedAt = since
	return f
}

// findUnexplained finds a Kyma in state Error or Warning if no earlier rule has found the cause. Without this rule, the
// runtime would count as healthy.
func findUnexplained(k *kymaState) *finding {
	if state := k.kyma.Status.State; k.isSingle || k.ready.Status == metav1.ConditionTrue || state != v1beta2.StateError &&
		state != v1beta2.StateWarning {
		return nil
	}
	return newFinding(Unexplained, k.ready)
}

// findNotReady finds a Kyma whose condition Ready is not True.
func findNotReady(k *kymaState) *finding {
	if k.isSingle || k.ready.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(NotReady, k.ready)
}

func findUnwatched(k *kymaState) *finding {
	if k.watchers == nil || k.watchers.Reason != v1beta2.ReasonNotWatched || k.watchers.Status == metav1.ConditionTrue {
		return nil
	}
	return newFinding(WatcherNotServed, k.watchers)
}

func findAwaitsWindow(k *kymaState) *finding {
	for i := range k.status {
		if m := &k.status[i]; m.Maintenance {
			situation := WindowAwaited
			if k.moduleReasons(m.Name).Runtime == v1beta2.Reason(reason.WindowMissing) {
				situation = WindowMissing
			}
			return &finding{situation: situation, module: m.Name,
				message: "module " + m.Name + " stays at version " + m.Version + ": " + m.Message}
		}
	}
	return nil
}
