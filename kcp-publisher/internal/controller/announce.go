package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func (k *Kymas) emitChanges(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	for _, e := range ingest.EventsBetween(before, kyma.Status) {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		if k.wantsEvent(kind) && (!e.FromReport || k.mayAnnounce(kyma, fleetstate.StateEvent)) {
			k.emitEvent(kyma, kind, e.Reason, "Reconcile", e.Note)
		}
	}
}

// wantsEvent returns false for Normal Events if k.KymaEvents is FailureEvents.
func (k *Kymas) wantsEvent(kind string) bool {
	return kind != corev1.EventTypeNormal || k.KymaEvents != FailureEvents
}

// emitEvent emits an Event about a Kyma if the user wants Events of this type.
func (k *Kymas) emitEvent(kyma *v1beta2.Kyma, kind, reason, action, note string) {
	if k.wantsEvent(kind) {
		k.Events.Eventf(kyma, nil, kind, reason, action, "%s", eventNote(note))
	}
}

// announceProblem emits a Warning Event about a runtime's report. It drops the Event if the runtime has caused too many
// Events recently.
func (k *Kymas) announceProblem(kyma *v1beta2.Kyma, reason, note string) {
	if k.mayAnnounce(kyma, fleetstate.ProblemEvent) {
		k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, reason, "Ingest", "%s", eventNote(note))
	}
}

// mayAnnounce reports whether another Event about the runtime is allowed, and counts the Event.
func (k *Kymas) mayAnnounce(kyma *v1beta2.Kyma, limit fleetstate.EventLimit) bool {
	allowed := false
	k.fleet.EditCurrent(kyma, func(r *fleetstate.Runtime) { allowed = r.AllowEvent(limit, k.Now()) })
	return allowed
}

// announceDeviation writes a log line and emits an Event if the registry does not contain the published bundle.
func (k *Kymas) announceDeviation(ctx context.Context, kyma *v1beta2.Kyma, d *plan.Deviation) {
	if d == nil {
		return
	}
	registryDeviations.WithLabelValues(d.Reason).Inc()
	runtime := plan.RuntimeID(kyma)
	ctrl.LoggerFrom(ctx).Info("the registry does not contain the published bundle, publishing it again", "runtime",
		runtime, "reason", d.Reason, "detail", d.Message)
	k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, d.Reason, "Publish", "%s",
		eventNote(fmt.Sprintf("runtime %s: %s", runtime, d.Message)))
}

// AnnounceRestored logs that the publisher restored missing content in the registry.
func AnnounceRestored(ctx context.Context, content string) {
	registryDeviations.WithLabelValues(restoredLabel).Inc()
	ctrl.LoggerFrom(ctx).Info("restored missing content in the registry", "what", content)
}

// restoredLabel is the value of the label "reason" for restored content that several runtimes share.
const restoredLabel = "SharedMissing"

// announceNewer emits an Event if a runtime reports a newer bundle than this publisher has published. Such a report
// means that another publisher is active, or that the control plane has lost data.
func (k *Kymas) announceNewer(ctx context.Context, kyma *v1beta2.Kyma, report bundle.AcceptedReport) {
	observed := report.Observed
	newest := k.fleet.PublishRecord(kyma).NewestPosition()
	if status := kyma.Status.Runtime; status != nil && status.Published != nil &&
		status.Published.Epoch >= newest.Epoch {
		newest = plan.RecordedBundle{Epoch: status.Published.Epoch, Sequence: max(status.Published.Sequence, newest.Sequence)}
	}
	if newest.Sequence == 0 || observed == nil || observed.Epoch != newest.Epoch ||
		observed.Sequence <= newest.Sequence || plan.IsAhead(observed.Sequence, k.Now()) {
		return
	}
	k.fleet.PublishRecord(kyma).RequestCheck()
	message := fmt.Sprintf("the runtime has accepted bundle %d, but the latest bundle known to this publisher is %d",
		observed.Sequence, newest.Sequence)
	if k.mayAnnounce(kyma, fleetstate.ProblemEvent) {
		k.announceDeviation(ctx, kyma, &plan.Deviation{Reason: v1beta2.ReasonBundleUnknown, Message: message})
	}
}

var watchedChanges = measure.Counters[string](measure.Definition{
	Name:   "kyma_pull_publisher_watched_changes_total",
	Help:   "Changes to watched objects that runtimes reported, by watcher.",
	Labels: []string{"watcher"}, Leader: true,
})

// maxWatchEvents limits the number of Events for one Watcher and one report. If a report contains more changes, the
// last Event contains the number of omitted changes.
const maxWatchEvents = 8

type watchChanges struct {
	watcher bundle.Watcher
	objects []bundle.WatchedObject
	trouble string
}

// newChanges returns the changes to watched objects that the previous report did not contain. last is the sequence
// number of the previous report. newChanges omits invalid entries, because a report is untrusted.
func newChanges(report bundle.Report, watchers []bundle.Watcher, last int64) []watchChanges {
	var all []watchChanges
	left := bundle.MaxWatchedReported
	for _, watcher := range watchers {
		at := slices.IndexFunc(report.Watched, func(r bundle.ReportedWatch) bool { return r.Watcher == watcher.Name })
		if at < 0 || report.Watched[at].Since <= last || report.Watched[at].Since > report.Sequence {
			continue
		}
		news := watchChanges{watcher: watcher, trouble: report.Watched[at].Trouble}
		for _, o := range report.Watched[at].Objects {
			if o.Since > last && o.IsValid() && left > 0 {
				news.objects = append(news.objects, o)
				left--
			}
		}
		all = append(all, news)
	}
	return all
}

func (k *Kymas) announceWatched(kyma *v1beta2.Kyma, before *bundle.AcceptedReport, after bundle.AcceptedReport) {
	runtime := plan.RuntimeID(kyma)
	watchers, _ := k.Watchers.Snapshot()
	var last int64
	if kyma.Status.Runtime != nil {
		last = kyma.Status.Runtime.ReportSequence
	}
	if before != nil {
		last = max(last, before.Sequence)
	}
	for _, news := range newChanges(after.Report, watchers, last) {
		watchedChanges.WithLabelValues(news.watcher.Name).Add(float64(max(len(news.objects), 1)))
		for i, o := range news.objects {
			if i == maxWatchEvents {
				break
			}
			note := fmt.Sprintf("watcher %s: %s %s changed in runtime %s", news.watcher.Name,
				news.watcher.GVR().GroupResource(), strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), runtime)
			if more := len(news.objects) - maxWatchEvents; i == maxWatchEvents-1 && more > 0 {
				note += fmt.Sprintf(", and %d more", more)
			}
			// The Event refers to the changed object, so that each object has its own Event. Otherwise, the API server
			// would combine the Events into one.
			about := &corev1.ObjectReference{
				APIVersion: v1beta2.GroupVersion.String(), Kind: "Watcher", Namespace: kyma.Namespace,
				Name:      news.watcher.Name,
				FieldPath: o.Namespace + "/" + o.Name,
			}
			if k.mayAnnounce(kyma, fleetstate.WatchEvent) {
				k.Events.Eventf(kyma, about, corev1.EventTypeNormal, v1beta2.ReasonWatchedObjectChanged, "Ingest", "%s",
					eventNote(note))
			}
		}
		if news.trouble != "" {
			k.announceProblem(kyma, v1beta2.ReasonWatchFailed,
				fmt.Sprintf("watcher %s in runtime %s: %s", news.watcher.Name, runtime, news.trouble))
		}
	}
}

// Retire removes this publisher's Kymas from the metrics. It must be called when another process becomes responsible
// for these Kymas.
func (k *Kymas) Retire() {
	k.counts.remove()
}

func (k *Kymas) updateCounts(kyma *v1beta2.Kyma) {
	catalog := k.Catalog.Snapshot()
	if catalog == nil {
		return // the catalog has not been read yet
	}
	k.counts.setRuntime(client.ObjectKeyFromObject(kyma), fleet.Judge(kyma, fleet.Rollouts{}, k.Now()), catalog)
}

// announceWritten updates metrics and emits Events for the changes between two statuses of a Kyma. Callers must write
// the new status first. After a restart, the Events are not repeated, because the status already contains the changes.
func (k *Kymas) announceWritten(kyma *v1beta2.Kyma, before, after v1beta2.KymaStatus) {
	if took, is := applyTime(before, after); is {
		publishToApplied.WithLabelValues().Observe(took.Seconds())
	}
	switch was, is := plan.IsSilent(before.Conditions), plan.IsSilent(after.Conditions); {
	case is && !was:
		reporting := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReporting)
		k.emitEvent(kyma, corev1.EventTypeWarning, v1beta2.ReasonRuntimeSilent, "Ingest",
			fmt.Sprintf("runtime %s is silent: %s", plan.RuntimeID(kyma), reporting.Message))
	case was && plan.HasCurrentReport(after.Conditions):
		k.emitEvent(kyma, corev1.EventTypeNormal, v1beta2.ReasonRuntimeHeard, "Ingest",
			fmt.Sprintf("runtime %s reports again", plan.RuntimeID(kyma)))
	}
}

// showsRefusal reports whether the Kyma's status already shows that the publisher refused a report for the same reason.
func showsRefusal(kyma *v1beta2.Kyma, refused *refusal.Error) bool {
	r := kyma.Status.Runtime
	return plan.HasRefusedReport(kyma) && r != nil && r.Reasons != nil &&
		refusal.Reason(r.Reasons.Report) == refusal.Known(refused.Reason)
}

func knownReason(reason refusal.Reason) refusal.Reason {
	if refusal.Known(reason) == refusal.Other {
		return otherReason
	}
	return reason
}
