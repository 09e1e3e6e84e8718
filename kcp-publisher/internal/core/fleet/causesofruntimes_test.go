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
	{"nothing", func(*world) {}, "", Healthy, "", ""},
	{"immutable fields", func(w *world) {
		w.reports("keda", "Error",
			`nothing of version 1.0.0 was applied: Deployment x: spec.selector: can only be changed by recreating it: keep the fields as they are`).because("keda", reason.Immutable)
	}, ModuleImmutable, "", "module keda is Error", "kyma-pull.dev/recreate"},
	{"objects of another client", func(w *world) {
		w.reports("keda", "Error",
			"nothing was applied: Deployment kyma-system/x: there already and not made by this module: rename it in "+
				"the module, delete it, or hand it over").because("keda", reason.Conflict)
	}, ModuleConflict, "", "", "kyma-pull.dev/adopt"},
	{"a missing right", func(w *world) {
		w.reports("keda", "Error",
			"nothing was applied: system:serviceaccount:a:b may not create pods: grant it that, or remove the "+
				"objects from the module").because("keda", reason.Forbidden)
	}, ModuleForbidden, "", "", "docs/guides/rights.md"},
	{"a quota", func(w *world) {
		w.reports("keda", "Error", `pods "x" is forbidden: exceeded quota: small`).because("keda", reason.ApplyFailed)
	}, ModuleApplyFailed, "", "exceeded quota", ""},
	{"an object that the API server refuses", func(w *world) {
		w.reports("keda", "Error", "nothing of version 1.0.0 was applied: Deployment x: spec.replicas: invalid").
			because("keda", reason.ApplyFailed)
	}, ModuleApplyFailed, "", "", ""},
	{"an object of the agent's own", func(w *world) {
		w.reports("keda", "Error",
			"Role kyma-system/skr-agent: has a name that is reserved for the agent: remove it from the module").
			because("keda", reason.Protected)
	}, ModuleProtected, "", "", ""},
	{"a kind that is not served", func(w *world) {
		w.reports("keda", "Error", "Foo x (foo/v1): the cluster does not know this kind").
			because("keda", reason.UnknownKind)
	}, ModuleKindUnknown, "", "", ""},
	{"an image that cannot be pulled", func(w *world) {
		w.reports("keda", "Error", "not ready after 10m0s: Pod keda: ImagePullBackOff: unauthorized").
			because("keda", reason.ImagePull)
	}, ModuleImagePull, "", "unauthorized", "docs/guides/secrets.md"},
	{"images that cannot be redirected", func(w *world) {
		w.reports("keda", "Error", "annotation kyma-pull.dev/images: invalid character").
			because("keda", reason.ImagesBroken)
	}, ModuleImages, "", "", ""},
	{"content that is not there", func(w *world) {
		w.reports("keda", "Error", "module keda: the next version waits: fetch blob: 403").
			because("keda", reason.ContentMissing)
	}, ModuleContentMissing, "", "", "kcp-publisher export r-1"},
	{"content that cannot be rendered", func(w *world) {
		w.reports("keda", "Error", "chart keda: values: x").because("keda", reason.ContentBroken)
	}, ModuleContentBroken, "", "values", ""},
	{"a module that does not become ready", func(w *world) {
		w.reports("keda", "Error", "not ready after 10m0s: Deployment keda: Available: 0/1").
			because("keda", reason.Timeout)
	}, ModuleNotReadyInTime, "", "0/1", ""},
	{
		"a broken module", func(w *world) { w.reports("mail", "Error", "Deployment mail cannot start") }, ModuleBroken,
		"",
		"module mail is Error: Deployment mail cannot start", "kubectl describe manifest",
	},
	{
		"a module that asks for something", func(w *world) { w.reports("keda", "Warning", "give it a database") },
		ModuleWarning, "", "give it a database", "",
	},
	{"a broken module after one that asks for something", func(w *world) {
		w.reports("keda", "Warning", "give it a database").reports("mail", "Error", "Deployment mail cannot start")
	}, ModuleBroken, "", "module mail is Error", ""},
	{"a module that is in use and shall go", func(w *world) {
		w.facts.Published.State.Manifests = w.facts.Published.State.Manifests[1:]
		w.facts.Published.Predicate.Removals = []string{"keda"}
		w.reports("keda", "Warning",
			"the module goes when its custom resources are gone, delete them: ScaledObject a/b").
			because("keda", reason.CustomResourcesExist)
	}, ModuleRemovalBlocked, "", "ScaledObject a/b", ""},
	{
		"a module that is being installed", func(w *world) { w.reports("keda", "Processing", "Deployment keda: 0/1") },
		ModuleProcessing, "", "0/1", "",
	},
	{"a module that is being installed for hours", func(w *world) {
		w.reports("keda", "Processing", "Deployment keda: 0/1")
		w.kyma = *w.status()
		w.now, w.lastReport = w.now.Add(3*time.Hour), w.now.Add(3*time.Hour)
		w.facts.Report.Sequence, w.facts.Report.Time = 9, w.now
	}, ModuleStuck, "", "0/1", ""},
	{"a broken module in a deleted Kyma", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.Deleting = &metav1.Time{Time: noon}, true
		w.reports("keda", "Error", "x")
	}, ModuleBroken, "", "", ""},
	{"a deleted Kyma", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.Deleting = &metav1.Time{Time: noon}, true
		w.pending(time.Minute)
	}, DeletionWaits, "", "waits for its runtime", "runtime-gone=true"},
	{"a deleted Kyma whose runtime does not take its last bundle", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.Deleting = &metav1.Time{Time: noon}, true
		w.pending(time.Hour)
	}, BundleNotTaken, "", "", ""},
	{"a module that is being installed since another one is repaired", func(w *world) {
		w.reports("keda", "Error", "x")
		w.kyma = *w.status()
		w.now, w.lastReport = w.now.Add(3*time.Hour), w.now.Add(3*time.Hour)
		w.facts.Report.Sequence, w.facts.Report.Time = 9, w.now
		w.reports("keda", "Ready", "").reports("mail", "Processing", "Deployment mail: 0/1")
	}, ModuleProcessing, "", "", ""},
	{"a deletion that takes more than a day", func(w *world) {
		w.kyma.DeletionTimestamp, w.facts.Deleting = &metav1.Time{Time: noon.Add(-26 * time.Hour)}, true
		w.pending(time.Minute)
	}, DeletionOverdue, "", "", ".metadata.finalizers"},
	{"an unknown trouble", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.kyma.Status.State = true, v1beta2.StateWarning
		w.kyma.Status.Conditions = []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "NotReady", Message: "the moon is full"},
		}
	}, Unexplained, "", "the moon is full", "kubectl describe kyma one"},
	{"a Kyma that is not ready and reports nothing else", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.kyma.Status.State = true, v1beta2.StateProcessing
		w.kyma.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "Unknown", Reason: "NotReady"}}
	}, NotReady, "", "", ""},
	{"a module that is ready and fails a check", func(w *world) {
		w.kyma = *w.status()
		w.untouched = true
		slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9", Message: "above 0.5"}
		w.kyma.Status.Runtime.Published.Given = map[string]v1beta2.GivenVersion{
			"keda": {Rollout: "keda-regular-1", Checks: []v1beta2.CheckOutcome{slow}},
		}
	}, CheckFailed, "", "check latency is Failed: 0.9: above 0.5", "kcp-publisher rollout undo keda-regular-1"},
	{
		"a bundle that was just published", func(w *world) { w.pending(10 * time.Second) }, BundlePending, "",
		"waiting for the runtime to report bundle 7", "wait a minute",
	},
	{"a bundle that changes no module and was just published", func(w *world) {
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
		"a bundle that the runtime does not take", func(w *world) { w.pending(45 * time.Minute) }, BundleNotTaken, "",
		"bundle 7", "logs",
	},
	{"a bundle that is still to be carried", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.Carried, w.facts.Silence = true, 90*24*time.Hour
		w.pending(24 * time.Hour)
	}, CarryPending, "", "carried", "kcp-publisher export r-1"},
	{
		"a certificate that was renewed in time", func(w *world) { w.certified(31*24*time.Hour, 59*24*time.Hour) }, "",
		Healthy, "", "",
	},
	{
		"a certificate that is not renewed", func(w *world) { w.certified(61*24*time.Hour, 29*24*time.Hour) },
		CertificateExpiresSoon, "", "expires at 2026-06-02T12:00:00Z", "enrollment key",
	},
	{
		"a short certificate that was just issued", func(w *world) { w.certified(time.Minute, 59*time.Minute) }, "",
		Healthy, "", "",
	},
	{
		"a certificate that has expired", func(w *world) { w.certified(91*24*time.Hour, -24*time.Hour) },
		CertificateExpired, "", "expired at 2026-05-03T12:00:00Z", "skr-agent",
	},
	{"a module that is broken while the certificate ends", func(w *world) {
		w.certified(61*24*time.Hour, 29*24*time.Hour).reports("keda", "Error", "x")
	}, ModuleBroken, "", "", ""},
	{"a Watcher that is not followed", func(w *world) {
		w.facts.Published.State.Watchers = []bundle.Watcher{{Name: "w"}}
		w.facts.Report.Watched = []bundle.ReportedWatch{{Watcher: "w", Trouble: "no such kind"}}
	}, WatcherNotServed, "", "no such kind", ""},
	{"an upgrade that waits for its window", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.facts.Report.Modules[0].Message = "the upgrade to version 1.0.0 requires downtime and waits for the " +
			"maintenance window from a to b"
	}, WindowAwaited, "", "module keda stays at version 0.9.0: the upgrade", "skipMaintenanceWindows"},
	{"a runtime that waits for its window and is silent", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.lastReport = noon.Add(-2 * time.Hour)
	}, NotHeard, "", "", "kubectl get pods"},
	{"an upgrade without a window", func(w *world) {
		w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		w.facts.Report.Modules[0].Message = "the upgrade to version 1.0.0 requires downtime and has no maintenance " +
			"window ahead: ask for one"
		w.facts.Report.Modules[0].Reason = reason.WindowMissing
	}, WindowMissing, "", "", ""},
	{
		"a rollout whose wave is to come", func(w *world) { w.rollout(v1alpha1.RolloutProgressing) }, RolloutHolds, "",
		"module keda is Ready in version 1.0.0: rollout keda-regular-1 holds version 1.1.0: wave all",
		"rollout show keda-regular-1",
	},
	{"a paused rollout", func(w *world) {
		w.rollout(v1alpha1.RolloutPaused, func(r *v1alpha1.Rollout) { r.Status.Message = "it is paused" })
	}, RolloutPaused, "", "holds version 1.1.0: wave all; it is paused", "rollout resume keda-regular-1"},
	{"a rollout whose wave waits for its approval", func(w *world) {
		w.rollout(v1alpha1.RolloutWaiting, func(r *v1alpha1.Rollout) {
			r.Status.Message, r.Status.Waves[0].State = "wave all waits for its approval", v1alpha1.WaveWaiting
		})
	}, RolloutPaused, "", "holds version 1.1.0: wave all waits for its approval", "rollout approve keda-regular-1 all"},
	{"a rollout that an operator undid", func(w *world) {
		w.withVersion().rollout(v1alpha1.RolloutRolledBack, func(r *v1alpha1.Rollout) { r.Spec.Undo = true })
	}, RolloutTookBack, "", "took version 1.1.0 back; it was undone on request",
		"no action needed: an operator undid the rollout"},
	{"a runtime that an operator suspended", func(w *world) {
		w.kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	}, Suspension, "", "publishing to the runtime is suspended", "resume"},
	{
		"a rollout that was stopped before this runtime", func(w *world) { w.rollout(v1alpha1.RolloutStopped) },
		RolloutStopped, "", "it was stopped", "rollout show keda-regular-1",
	},
	{
		"a rollout that took the version back here",
		func(w *world) { w.withVersion().rollout(v1alpha1.RolloutRolledBack) },
		RolloutTookBack, "", "took version 1.1.0 back", "rollout show keda-regular-1",
	},
	{
		"a rollout that was rolled back before this runtime", func(w *world) { w.rollout(v1alpha1.RolloutRolledBack) },
		RolloutWithdrawn, "", "was rolled back: version 1.1.0 goes to no further runtime", "no action needed",
	},
	{"a rollout that went through", func(w *world) { w.rollout(v1alpha1.RolloutSucceeded) }, "", Healthy, "", ""},
	{"a broken module that a stopped rollout gave", func(w *world) {
		w.withVersion().rollout(v1alpha1.RolloutStopped).reports("keda", "Error", "Deployment keda cannot start")
	}, ModuleBroken, "", "cannot start", ""},
}
