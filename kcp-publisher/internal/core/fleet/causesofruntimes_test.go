package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

var runtimeScenes = []scene{
	{"no problem", func(*world) {}, "", Healthy, "", ""},
	{"module with immutable fields", func(w *world) {
		w.reports("keda", "Error",
			`nothing of version 1.0.0 was applied: Deployment x: spec.selector: can only be changed by recreating it: do not change the field`).because("keda", reason.Immutable)
	}, ModuleImmutable, "", "module keda is Error", "kyma-pull.dev/recreate"},
	{"module objects with another owner", func(w *world) {
		w.reports("keda", "Error",
			"nothing was applied: Deployment kyma-system/x already exists and does not belong to this module: rename it "+
				"in the module, delete it, or hand it over").because("keda", reason.Conflict)
	}, ModuleConflict, "", "", "kyma-pull.dev/adopt"},
	{"missing permission for a module", func(w *world) {
		w.reports("keda", "Error",
			"nothing was applied: system:serviceaccount:a:b may not create pods: grant this permission, or remove the "+
				"objects from the module").because("keda", reason.Forbidden)
	}, ModuleForbidden, "", "", "docs/guides/rights.md"},
	{"exceeded quota", func(w *world) {
		w.reports("keda", "Error", `pods "x" is forbidden: exceeded quota: small`).because("keda", reason.ApplyFailed)
	}, ModuleApplyFailed, "", "exceeded quota", ""},
	{"API server refuses an object", func(w *world) {
		w.reports("keda", "Error", "nothing of version 1.0.0 was applied: Deployment x: spec.replicas: invalid").
			because("keda", reason.ApplyFailed)
	}, ModuleApplyFailed, "", "", ""},
	{"module with a protected object", func(w *world) {
		w.reports("keda", "Error",
			"Role kyma-system/skr-agent: the name is reserved for the agent: remove it from the module").
			because("keda", reason.Protected)
	}, ModuleProtected, "", "", ""},
	{"kind that the API server does not serve", func(w *world) {
		w.reports("keda", "Error", "Foo x (foo/v1): the API server does not serve this kind").
			because("keda", reason.UnknownKind)
	}, ModuleKindUnknown, "", "", ""},
	{"image cannot be pulled", func(w *world) {
		w.reports("keda", "Error", "not ready after 10m0s: Pod keda: ImagePullBackOff: unauthorized").
			because("keda", reason.ImagePull)
	}, ModuleImagePull, "", "unauthorized", "docs/guides/secrets.md"},
	{"invalid image rules", func(w *world) {
		w.reports("keda", "Error", "annotation kyma-pull.dev/images: invalid character").
			because("keda", reason.ImagesBroken)
	}, ModuleImages, "", "", ""},
	{"missing content", func(w *world) {
		w.reports("keda", "Error", "module keda cannot be updated: fetch blob: 403").
			because("keda", reason.ContentMissing)
	}, ModuleContentMissing, "", "", "kcp-publisher export r-1"},
	{"content cannot be rendered", func(w *world) {
		w.reports("keda", "Error", "chart keda: values: x").because("keda", reason.ContentBroken)
	}, ModuleContentBroken, "", "values", ""},
	{"module is not ready in time", func(w *world) {
		w.reports("keda", "Error", "not ready after 10m0s: Deployment keda: Available: 0/1").
			because("keda", reason.Timeout)
	}, ModuleNotReadyInTime, "", "0/1", ""},
	{
		"module in state Error", func(w *world) { w.reports("mail", "Error", "Deployment mail cannot start") },
		ModuleBroken, "",
		"module mail is Error: Deployment mail cannot start", "kubectl describe manifest",
	},
	{
		"module in state Warning", func(w *world) { w.reports("keda", "Warning", "give it a database") },
		ModuleWarning, "", "give it a database", "",
	},
	{"module in state Error after a module in state Warning", func(w *world) {
		w.reports("keda", "Warning", "give it a database").reports("mail", "Error", "Deployment mail cannot start")
	}, ModuleBroken, "", "module mail is Error", ""},
	{"removal blocked by custom resources", func(w *world) {
		w.facts.Published.State.Manifests = w.facts.Published.State.Manifests[1:]
		w.facts.Published.Predicate.Removals = []string{"keda"}
		w.reports("keda", "Warning",
			"custom resources of this module still exist: delete them to remove the module: ScaledObject a/b").
			because("keda", reason.CustomResourcesExist)
	}, ModuleRemovalBlocked, "", "ScaledObject a/b", ""},
	{
		"module is progressing", func(w *world) { w.reports("keda", "Processing", "Deployment keda: 0/1") },
		ModuleProcessing, "", "0/1", "",
	},
	{"module has been progressing for hours", func(w *world) {
		w.reports("keda", "Processing", "Deployment keda: 0/1")
		w.kyma = *w.status()
		w.now, w.lastReport = w.now.Add(3*time.Hour), w.now.Add(3*time.Hour)
		w.facts.Report.Sequence, w.facts.Report.Time = 9, w.now
	}, ModuleStuck, "", "0/1", ""},
	{"deleted Kyma with a module in state Error", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.IsDeleting = &metav1.Time{Time: noon}, true
		w.reports("keda", "Error", "x")
	}, ModuleBroken, "", "", ""},
	{"deleted Kyma", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.IsDeleting = &metav1.Time{Time: noon}, true
		w.pending(time.Minute)
	}, DeletionWaits, "", "waits for its runtime", "runtime-gone=true"},
	{"deleted Kyma whose last bundle is not applied in time", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.IsDeleting = &metav1.Time{Time: noon}, true
		w.pending(time.Hour)
	}, BundleNotTaken, "", "", ""},
	{"module has been progressing since another module recovered", func(w *world) {
		w.reports("keda", "Error", "x")
		w.kyma = *w.status()
		w.now, w.lastReport = w.now.Add(3*time.Hour), w.now.Add(3*time.Hour)
		w.facts.Report.Sequence, w.facts.Report.Time = 9, w.now
		w.reports("keda", "Ready", "").reports("mail", "Processing", "Deployment mail: 0/1")
	}, ModuleProcessing, "", "", ""},
	{"deletion takes more than a day", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.IsDeleting = &metav1.Time{Time: noon.Add(-26 * time.Hour)}, true
		w.pending(time.Minute)
	}, DeletionOverdue, "", "", ".metadata.finalizers"},
	{"Kyma in state Warning for an unknown reason", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.kyma.Status.State = true, v1beta2.StateWarning
		w.kyma.Status.Conditions = []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "NotReady", Message: "unknown problem"},
		}
	}, Unexplained, "", "unknown problem", "kubectl describe kyma one"},
	{"Kyma is not ready for an unknown reason", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.kyma.Status.State = true, v1beta2.StateProcessing
		w.kyma.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "Unknown", Reason: "NotReady"}}
	}, NotReady, "", "", ""},
	{"ready module fails a check", func(w *world) {
		w.kyma = *w.status()
		w.untouched = true
		slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9", Message: "above 0.5"}
		w.kyma.Status.Runtime.Published.Given = map[string]v1beta2.GivenVersion{
			"keda": {Rollout: "keda-regular-1", Checks: []v1beta2.CheckOutcome{slow}},
		}
	}, CheckFailed, "", "check latency is Failed: 0.9: above 0.5", "kcp-publisher rollout undo keda-regular-1"},
	{
		"bundle was just published", func(w *world) { w.pending(10 * time.Second) }, BundlePending, "",
		"waiting for the runtime to report bundle 7", "wait a minute",
	},
	{"bundle without module changes was just published", func(w *world) {
		w.kyma = *w.pending(time.Minute).status()
		w.untouched, w.kyma.Status.State = true, v1beta2.StateReady
		meta.SetStatusCondition(&w.kyma.Status.Conditions, metav1.Condition{
			Type: v1beta2.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta2.ReasonReady,
		})
		for i := range w.kyma.Status.Modules {
			w.kyma.Status.Modules[i].State = v1beta2.StateReady
		}
	}, "", Healthy, "", ""},
	{
		"bundle is not applied in time", func(w *world) { w.pending(45 * time.Minute) }, BundleNotTaken, "",
		"bundle 7", "logs",
	},
	{"bundle must be carried to the runtime by hand", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.IsCarried, w.facts.SilenceTimeout = true, 90*24*time.Hour
		w.pending(24 * time.Hour)
	}, CarryPending, "", "carried", "kcp-publisher export r-1"},
	{
		"certificate was renewed in time", func(w *world) { w.certified(31*24*time.Hour, 59*24*time.Hour) }, "",
		Healthy, "", "",
	},
	{
		"certificate was not renewed in time", func(w *world) { w.certified(61*24*time.Hour, 29*24*time.Hour) },
		CertificateExpiresSoon, "", "expires at 2026-06-02T12:00:00Z", "enrollment key",
	},
	{
		"short-lived certificate was just issued", func(w *world) { w.certified(time.Minute, 59*time.Minute) }, "",
		Healthy, "", "",
	},
	{
		"certificate has expired", func(w *world) { w.certified(91*24*time.Hour, -24*time.Hour) },
		CertificateExpired, "", "expired at 2026-05-03T12:00:00Z", "skr-agent",
	},
	{"module in state Error while the certificate expires soon", func(w *world) {
		w.certified(61*24*time.Hour, 29*24*time.Hour).reports("keda", "Error", "x")
	}, ModuleBroken, "", "", ""},
	{"Watcher is not served", func(w *world) {
		w.facts.Published.State.Watchers = []bundle.Watcher{{Name: "w"}}
		w.facts.Report.Watched = []bundle.ReportedWatch{{Watcher: "w", Trouble: "no such kind"}}
	}, WatcherNotServed, "", "no such kind", ""},
	{"upgrade waits for a maintenance window", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.facts.Report.Modules[0].Message = "the upgrade to version 1.0.0 requires downtime and waits for the " +
			"maintenance window from a to b"
	}, WindowAwaited, "", "module keda stays at version 0.9.0: the upgrade", "skipMaintenanceWindows"},
	{"silent runtime whose upgrade waits for a maintenance window", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.lastReport = noon.Add(-2 * time.Hour)
	}, SilentRuntime, "", "", "kubectl get pods"},
	{"upgrade without a maintenance window", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.facts.Report.Modules[0].Message = "the upgrade to version 1.0.0 requires downtime and has no maintenance " +
			"window ahead: ask for one"
		w.facts.Report.Modules[0].Reason = reason.WindowMissing
	}, WindowMissing, "", "", ""},
	{
		"rollout has not reached the runtime's wave", func(w *world) { w.rollout(v1alpha1.RolloutProgressing) },
		RolloutHolds, "",
		"module keda is Ready in version 1.0.0: rollout keda-regular-1 holds version 1.1.0: wave all",
		"rollout show keda-regular-1",
	},
	{"paused rollout", func(w *world) {
		w.rollout(v1alpha1.RolloutPaused, func(r *v1alpha1.Rollout) { r.Status.Message = "the rollout is paused" })
	}, RolloutPaused, "", "holds version 1.1.0: wave all; the rollout is paused", "rollout resume keda-regular-1"},
	{"wave waits for approval", func(w *world) {
		w.rollout(v1alpha1.RolloutWaiting, func(r *v1alpha1.Rollout) {
			r.Status.Message, r.Status.Waves[0].State = "wave all waits for its approval", v1alpha1.WaveWaiting
		})
	}, RolloutPaused, "", "holds version 1.1.0: wave all waits for its approval", "rollout approve keda-regular-1 all"},
	{"rollout undone by an operator", func(w *world) {
		w.withVersion().rollout(v1alpha1.RolloutRolledBack, func(r *v1alpha1.Rollout) { r.Spec.Undo = true })
	}, RolloutTookBack, "", "rolled version 1.1.0 back; it was undone on request",
		"no action needed: an operator undid the rollout"},
	{"runtime suspended by an operator", func(w *world) {
		w.kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	}, Suspension, "", "publishing to the runtime is suspended", "resume"},
	{
		"rollout stopped before the runtime's wave", func(w *world) { w.rollout(v1alpha1.RolloutStopped) },
		RolloutStopped, "", "the rollout was stopped", "rollout show keda-regular-1",
	},
	{
		"rollout rolled back the runtime",
		func(w *world) { w.withVersion().rollout(v1alpha1.RolloutRolledBack) },
		RolloutTookBack, "", "rolled version 1.1.0 back", "rollout show keda-regular-1",
	},
	{
		"rollout rolled back before the runtime's wave", func(w *world) { w.rollout(v1alpha1.RolloutRolledBack) },
		RolloutWithdrawn, "", "was rolled back: no more runtimes get version 1.1.0", "no action needed",
	},
	{"successful rollout", func(w *world) { w.rollout(v1alpha1.RolloutSucceeded) }, "", Healthy, "", ""},
	{"module in state Error whose version a stopped rollout delivered", func(w *world) {
		w.withVersion().rollout(v1alpha1.RolloutStopped).reports("keda", "Error", "Deployment keda cannot start")
	}, ModuleBroken, "", "cannot start", ""},
}
