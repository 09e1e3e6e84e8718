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
	// takenWithin is how long a runtime that reports may take to report the newest bundle: agents look every minute or so.
	takenWithin = 30 * time.Minute
	// settledWithin is how long modules may be neither ready nor in error: agents call it an error after 10 minutes where
	// nothing moves.
	settledWithin = time.Hour
	// notedWithin is by when a runtime that reports is noted again: publishers note each one within plan.MaxUnnoted.
	notedWithin = plan.MaxUnnoted + time.Hour
	// deletedWithin is how long publishers wait for the runtime of a deleted Kyma unless they are told otherwise, and some
	// time to act on it.
	deletedWithin = 25 * time.Hour
)

// found is what a rule finds in a runtime's way.
type found struct {
	situation Situation
	message   string
	// module and rollout are those that it is about, empty for none.
	module, rollout string
	// wave is what stands for WAVE in the advice. advice is given instead of the situation's where it fits better.
	wave, advice string
	// since is when it began, zero where nobody knows.
	since time.Time
}

// rules look for what is in the way, in the order of a bundle's way; the first that finds something names it. What
// passes by itself comes after what does not, or it would hide that. They return nil for nothing.
var rules = []func(*known) *found{
	suspended, notLookedAt, unpublishable, unsealed, unresolved, tamperedRegistry, reportRefused, neverReported, bundleRefused, notHeard, clockBehind, unsynced,
	unwritten, truncated, agentRolledBack, agentOutdated, takeoverWaits, brokenModule, notTaken, stuckModule, unexplained, deleting, lostInRegistry, pending, processingModule,
	notReady, certificateEnds, unwatched, awaitsWindow, held,
}

func suspended(k *known) *found {
	if !plan.Skipped(k.kyma) {
		return nil
	}
	f := &found{situation: Suspension, message: "nothing is published to the runtime, by the label " + v1beta2.LabelSkipReconciliation}
	if reason := k.kyma.Annotations[v1beta2.AnnotationSuspendReason]; reason != "" {
		f.message += ": " + reason
	}
	_, f.since = SuspendedBy(k.kyma)
	return f
}

// SuspendedBy returns which program labeled a suspended Kyma and when, as the API server noted it: the time is that of
// its last change of the Kyma. Both are empty where nobody knows, as of a Kyma that was read from a cache.
func SuspendedBy(kyma *v1beta2.Kyma) (string, time.Time) {
	for _, entry := range kyma.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+v1beta2.LabelSkipReconciliation+`"`) {
			return line(entry.Manager), entry.Time.Time
		}
	}
	return "", time.Time{}
}

func notLookedAt(k *known) *found {
	if k.ready != nil {
		return nil
	}
	return &found{situation: NotLookedAt, message: "the publisher has not looked at this Kyma yet: does it run?", since: k.kyma.CreationTimestamp.Time}
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

// unresolved is about modules that the control plane cannot give, whatever the runtime says.
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

// tamperedRegistry is about what somebody else wrote there.
func tamperedRegistry(k *known) *found {
	if k.registry == nil || k.registry.Status == metav1.ConditionTrue || isLost(k.registry) {
		return nil
	}
	return of(RegistryTampered, k.registry)
}

// lostInRegistry is about what is published again.
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

func notHeard(k *known) *found {
	if k.notReporting(v1beta2.ReasonSilent) {
		f := of(NotHeard, k.reporting)
		f.since = plan.Heard(k.kyma)
		switch {
		case k.reasons().Report == v1beta2.Reason(reason.ReportUnreadable):
			f.situation = ReportUnreadable
		case k.carried:
			f.situation = CarriedTooOld
		}
		return f
	}
	noted := plan.Heard(k.kyma)
	if k.carried || noted.IsZero() || !plan.Reports(k.kyma) || k.now.Sub(noted) <= notedWithin {
		return nil
	}
	return &found{situation: PublisherAbsent, since: noted,
		message: "the runtime was noted last at " + noted.UTC().Format(time.RFC3339) + ", and one that reports is noted every day: no publisher listens"}
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

// agentOutdated is about what is left out of the bundle because the agent does not understand it.
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
		why = v1beta2.Reason(reason.ReportsWarning) // an agent without reasons
	}
	return k.ofModule(fromModule.situation(why), warned)
}

func deleting(k *known) *found {
	if k.kyma.DeletionTimestamp.IsZero() {
		return nil
	}
	f := &found{situation: DeletionWaits, message: "the Kyma is deleted and waits for its runtime to remove the modules", since: k.kyma.DeletionTimestamp.Time}
	if m := k.firstUnready(); m != nil && m.Message != "" {
		f.message, f.module = f.message+": module "+m.Name+": "+m.Message, m.Name
	}
	if k.now.Sub(f.since) > deletedWithin {
		f.situation = DeletionOverdue
	}
	return f
}

// unreported returns the newest bundle while the runtime has not reported it, nil for none.
func (k *known) unreported() *v1beta2.PublishedBundle {
	if k.accepted == nil || k.accepted.Status == metav1.ConditionTrue {
		return nil
	}
	return k.published()
}

// notTaken is about a bundle that a runtime which reports should have reported by now.
func notTaken(k *known) *found {
	published := k.unreported()
	if published == nil || k.accepted.Reason == v1beta2.ReasonCarried || !plan.Reports(k.kyma) || k.now.Sub(published.Time.Time) <= takenWithin {
		return nil
	}
	return &found{situation: BundleNotTaken, message: k.accepted.Message, since: published.Time.Time}
}

// pending is about a bundle that is not reported yet. Where the publisher calls the Kyma Ready all the same, the bundle
// changes none of its modules, and nothing is missing.
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

// processing returns the first module that is not ready, and since when modules are not.
func (k *known) processing() (*v1beta2.ModuleStatus, time.Time) {
	m := k.firstUnready()
	if m == nil || k.modules == nil || k.modules.Status == metav1.ConditionTrue {
		return m, time.Time{}
	}
	since := k.modules.LastTransitionTime.Time
	// Another module may have been in the way before this one: what happened since counts.
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

// unexplained is about a Kyma in trouble of which no other rule knows: what is not understood is not healthy.
func unexplained(k *known) *found {
	if state := k.kyma.Status.State; k.one || k.ready.Status == metav1.ConditionTrue || state != v1beta2.StateError && state != v1beta2.StateWarning {
		return nil
	}
	return of(Unexplained, k.ready)
}

// notReady is the same of a Kyma that is not in trouble.
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
