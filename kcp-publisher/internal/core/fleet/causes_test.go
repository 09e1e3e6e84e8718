package fleet

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// scene is a test case. If health is empty, the test expects the health in the situation's Description.
type scene struct {
	name            string
	change          func(*world)
	situation       Situation
	health          Health
	message, advice string
}

var controlPlaneScenes = []scene{
	{"suspended Kyma", func(w *world) {
		w.untouched, w.kyma.Labels[v1beta2.LabelSkipReconciliation] = true, "true"
	}, Suspension, "", "by the label operator.kyma-project.io/skip-reconciliation",
		"resume it: kcp-publisher resume kyma/one -n kcp-system"},
	{"suspended Kyma with a reason", func(w *world) {
		w.untouched, w.kyma.Labels[v1beta2.LabelSkipReconciliation] = true, "true"
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationSuspendReason: "its owner migrates\n\x1b[2J"}
	}, Suspension, "", "skip-reconciliation: its owner migrates", ""},
	{
		"Kyma that no publisher has reconciled", func(w *world) { w.untouched = true }, NotLookedAt, "",
		"no publisher has reconciled this Kyma yet", "-n kcp-system",
	},
	{"Kyma with the runtime ID of another Kyma", func(w *world) {
		older := *w.kyma.DeepCopy()
		older.Name, older.Status.Runtime = "older", &v1beta2.RuntimeStatus{
			ID: "r-1", Key: &v1beta2.RuntimeKey{Thumbprint: "t"},
		}
		w.never().failed(plan.NewOwners([]v1beta2.Kyma{older, w.kyma}).Check(&w.kyma)).facts.Published = nil
	}, DuplicateRuntimeID, "", "runtime ID r-1 already belongs to Kyma kcp-system/older",
		"kubectl label kyma one -n kcp-system"},
	{"two new Kymas with one runtime ID", func(w *world) {
		other := *w.kyma.DeepCopy()
		other.Name, other.Status.Runtime = "other", nil
		w.never().failed(plan.NewOwners([]v1beta2.Kyma{other, w.kyma}).Check(&w.kyma)).facts.Published = nil
	}, RuntimeUnassigned, "", "no operator has assigned the runtime", "kcp-publisher move r-1 --to one"},
	{"Kyma whose runtime moved to another control plane", func(w *world) {
		away := *w.kyma.DeepCopy()
		away.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
		w.failed(plan.NewOwners([]v1beta2.Kyma{away}).Check(&away))
	}, RuntimeHandedOver, "", "released to another control plane", "delete this Kyma"},
	{"runtime with two agents that use one key", func(w *world) {
		w.failed(reason.Errorf(reason.CloneDetected,
			"two agents, instances \"a\" and \"b\", report with the key of this runtime"))
	}, CloneDetected, "", "two agents", "stop the copied cluster"},
	{"invalid runtime ID", func(w *world) {
		w.failed(reason.Errorf(reason.RuntimeIDInvalid, "runtime ID Ä: want letters"))
	}, RuntimeIDInvalid, "", "want letters", "kubectl label kyma one"},
	{"changed runtime ID", func(w *world) {
		other := *w.kyma.DeepCopy()
		other.Status.Runtime = &v1beta2.RuntimeStatus{ID: "r-0"}
		w.failed(plan.NewOwners([]v1beta2.Kyma{other}).Check(&other))
	}, RuntimeIDChanged, "", "the Kyma owns runtime r-0", "restore the label"},
	{"expired root of trust", func(w *world) {
		w.failed(
			publishing(refusal.New(refusal.RootExpired,
				"the root of trust, version 3, expired at 2026-05-01T00:00:00Z")))
	}, RootExpired, "", "expired at 2026-05-01", "kcp-publisher keys rotate"},
	{"keys that the root does not list", func(w *world) {
		w.failed(
			publishing(refusal.New(refusal.UnknownKey,
				"publisher key abc is not listed in the root of trust, version 3")))
	}, KeysNotAccepted, "", "not listed", "kcp-publisher keys show"},
	{"outdated key folder", func(w *world) {
		w.failed(publishing(refusal.New(refusal.BadRoot, "the key folder is outdated: its root of trust is version 2")))
	}, KeysNotAccepted, "", "outdated", ""},
	{"invalid pins", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationPinnedVersions: "keda:1.0.0"}
		_, err := plan.Rules{}.Request(&w.kyma, nil)
		w.failed(err)
	}, PinsInvalid, "", "must be MODULE=VERSION", "kubectl edit kyma one"},
	{"invalid annotation", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "soon"}
		_, _, err := plan.Rules{}.SilenceTimeoutFor(&w.kyma)
		w.failed(err)
	}, AnnotationInvalid, "", `"soon" must be true, or a duration`, ""},
	{"invalid maintenance window", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: "{"}
		_, err := plan.Rules{}.Request(&w.kyma, nil)
		w.failed(err)
	}, AnnotationInvalid, "", "", ""},
	{"registry denies access to the runtime's repository", func(w *world) {
		w.failed(reason.Errorf(reason.RegistryNotAnswering, "the registry returned 403 Forbidden"))
	}, RegistryNotAnswering, "", "403", "kcp-publisher check -n kcp-system --location"},
	{"registry requests fail for this runtime only", func(w *world) {
		w.failed(reason.Errorf(reason.RegistryNotAnswering,
			"the registry responds, but the requests for this runtime fail: see the publisher's log"))
	}, RegistryNotAnswering, "", "", ""},
	{"bundle could not be created", func(w *world) {
		w.failed(publishing(errors.New("its desired state changes too often")))
	}, PublishFailed, "", "changes too often", ""},
	{"image pull Secret not found", func(w *world) {
		w.facts.SecretsError = reason.Errorf(reason.SecretMissing,
			"image pull Secret kcp-system/pull not found: create it, or run without --image-pull-secret")
	}, SecretMissing, "", "not found", ""},
	{"Secret cannot be sealed", func(w *world) {
		w.facts.SecretsError = errors.New(
			"seal Secrets: the runtime's agent does not report a recipient for Secrets: upgrade the agent")
	}, SecretsNotSealed, "", "does not report a recipient", ""},

	{
		"unknown module", func(w *world) { w.asks(v1beta2.Module{Name: "kdea"}, nil) }, ModuleUnknown, "",
		"module kdea is Warning: module kdea is unknown", "kubectl get modulereleasemetas -n kcp-system",
	},
	{
		"unknown module of a runtime that never reported",
		func(w *world) { w.never().asks(v1beta2.Module{Name: "kdea"}, nil) }, ModuleUnknown, "", "is unknown", "",
	},
	{
		"channel without a version of the module",
		func(w *world) { w.asks(v1beta2.Module{Name: "keda", Channel: "slow"}, nil) },
		ChannelMissing, "", `channel "slow" has no version`, "kubectl edit modulereleasemeta keda",
	},
	{
		"version without a template", func(w *world) { w.asks(v1beta2.Module{Name: "keda", Channel: "fast"}, nil) },
		TemplateMissing, "", "add keda-1.1.0", "",
	},
	{
		"pinned version that does not exist",
		func(w *world) {
			w.asks(v1beta2.Module{Name: "keda", Version: "9.9.9"}, nil)
		}, PinUnavailable, "", "pinned version", "",
	},
	{
		"beta module for a Kyma without the beta label", func(w *world) { w.asks(v1beta2.Module{Name: "beta"}, nil) },
		ModuleNotOffered, "", "not offered to this runtime", "kubectl label kyma one",
	},
	{"version with two templates", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.TemplateDoubled,
				Message: "module keda: version 1.0.0 has two ModuleTemplates: remove kcp-system/a or kcp-system/b"})
	}, TemplateDoubled, "", "remove kcp-system/a", ""},
	{"invalid template", func(w *world) {
		w.facts.Problems = append(w.facts.Problems, bundle.Problem{
			Module: "keda", State: v1beta2.StateWarning, Reason: reason.CatalogInvalid, Message: "x",
		})
	}, CatalogInvalid, "", "x", ""},
	{"module problem without a reason", func(w *world) {
		w.facts.Problems = append(w.facts.Problems, bundle.Problem{
			Module: "keda", State: v1beta2.StateError, Message: "is unknown",
		})
	}, ModuleUnresolved, "", "is unknown", ""},
	{"component not found", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(fmt.Errorf("component kyma-pull.dev/module/keda:1.0.0: %w in registry.example/modules",
				component.ErrMissing)))
	}, ComponentNotFound, "", "component version not found", "--components"},
	{"unsigned component", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(reason.Errorf(reason.ComponentUnsigned,
				"component kyma-pull.dev/module/keda:1.0.0: is not signed: the policy's rule for * requires release")))
	}, ComponentUnsigned, "", "is not signed", "component verify"},
	{"invalid component", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(errors.New("component kyma-pull.dev/module/keda:1.0.0: no resource to install")))
	}, ComponentBroken, "", "no resource to install", "component show"},
	{"inherited module whose version is not in the catalog", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.ModuleNotInherited,
				Message: "module keda is not changed and cannot be taken over in version " +
					"0.9.0: ModuleTemplate keda-0.9.0 does not exist"})
	}, ModuleNotInherited, "", "in version 0.9.0", "takeover plan one"},
	{"module removal waits for approval", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.RemovalHeld,
				Message: "module keda: its removal waits for an operator's approval"})
	}, RemovalHeld, "", "waits for an operator's approval", "removals approve"},
	{"removal of all modules waits for approval", func(w *world) {
		w.facts.Removals.HeldReasons = map[string]removal.Reason{"": removal.NamespaceDeleted}
	}, RemovalHeld, "", "the namespace of the Kymas is being deleted", "removals approve"},
	{"partially applied commit", func(w *world) { w.holding = "commit 3f0c is applied in part" }, CommitHeld,
		"",
		"commit 3f0c is applied in part", "kyma-pull-git"},
	{"channel with an older version without a rollout", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"}, nil, func(r *resolve.Request) {
			r.Versions = map[string]string{"keda": "1.5.0"}
		})
	}, OlderVersionAsked, "", "stays at version 1.5.0", "rollout list"},
	{"module with an undefined value", func(w *world) {
		w.reports("keda", "Error", "module keda: value region is not defined for this runtime").because("keda",
			reason.ValueUndefined)
	}, ValueUndefined, "", "value region", "kyma-pull.dev/values"},
	{"module with a value of the wrong type", func(w *world) {
		w.reports("keda", "Error", "module keda: value size must be an integer, such as 3").because("keda",
			reason.ValueInvalid)
	}, ValueInvalid, "", "value size", "kyma-pull.dev/values"},
}

var wayScenes = []scene{
	{"registry lost the bundle", func(w *world) {
		w.facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleMissing, Message: "the registry has no bundle of the runtime",
		}
	}, RegistryLost, "", "no bundle", ""},
	{"registry lost the bundle of a runtime with a broken module", func(w *world) {
		w.reports("keda", "Error", "Deployment keda cannot start").facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleIncomplete, Message: "documents of the bundle are missing",
		}
	}, ModuleBroken, "", "", ""},
	{"registry with a bundle from an unknown signer", func(w *world) {
		w.facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleForeign, Message: "the bundle in the registry is not signed by a publisher",
		}
	}, RegistryTampered, "", "", "access log"},
	{"report signed with a revoked key", func(w *world) {
		w.pending(time.Minute).
			refusedReport(refusal.Revoked,
				"signed with key +lYYa, which is revoked: delete the agent's key and enroll it again")
	}, KeyRevoked, "", "which is revoked", "kcp-publisher enroll r-1"},
	{"enrollment with a used token", func(w *world) {
		w.never().
			refusedReport(refusal.NotEnrolled,
				"enrollment: the token was used before: run `kcp-publisher enroll` again")
	}, EnrollmentRefused, "", "used before", "kcp-publisher enroll r-1"},
	{"report from another agent with the same runtime ID", func(w *world) {
		w.refusedReport(refusal.ForeignKey, "signed with key abc, which is not the runtime's key")
	}, ForeignKey, "", "", "kcp-publisher revoke r-1"},
	{"runtime clock is days ahead", func(w *world) {
		w.refusedReport(refusal.NotYetIssued, "report 5 is of 2026-05-07, 72h ahead of this clock")
	}, RuntimeClockAhead, "", "ahead", ""},
	{
		"malformed report",
		func(w *world) {
			w.refusedReport(refusal.Malformed, "report: runtime: is empty")
		}, ReportRefused, "", "Malformed", "",
	},
	{
		"runtime that never reported", func(w *world) { w.never() }, NeverEnrolled, "",
		"the runtime has never reported", "kcp-publisher enroll r-1",
	},
	{"air-gapped runtime that never reported", func(w *world) {
		w.never().kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.IsCarried = true
	}, NeverCarried, "", "never reported", "kcp-publisher export r-1"},
	{"report cannot be read from the registry", func(w *world) {
		w.never().facts.ReportUnread = errors.New("the registry answers 403 Forbidden")
	}, ReportUnreadable, "", "cannot be read: the registry answers 403", ""},
	{
		"silent runtime", func(w *world) { w.lastReport = noon.Add(-3 * time.Hour) }, SilentRuntime, "",
		"more than the allowed 30m0s ago", "runtime-gone",
	},
	{"silent runtime with a pending bundle", func(w *world) {
		w.pending(time.Hour).lastReport = noon.Add(-3 * time.Hour)
	}, SilentRuntime, "", "more than the allowed", ""},
	{"report carried by hand is too old", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.IsCarried, w.facts.SilenceTimeout = true, 90*24*time.Hour
		w.lastReport, w.facts.Report.Time = noon.Add(-100*24*time.Hour), noon.Add(-100*24*time.Hour)
	}, CarriedTooOld, "", "", "import-report"},
	{"no publisher reads the reports", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.now = true, noon.Add(30*time.Hour)
	}, PublisherAbsent, "", "no publisher is reading reports", ""},
	{
		"runtime clock is behind", func(w *world) { w.facts.Report.Time = noon.Add(-72 * time.Hour) },
		RuntimeClockBehind, "", "", "",
	},

	{
		"expired bundle in the runtime", func(w *world) { w.facts.Report.Observed.Expired = true }, BundleExpired, "",
		"has expired", "",
	},
	{
		"refused bundle: expired", func(w *world) { w.refusedBundle(refusal.Expired) },
		BundleExpired, "", "(Expired)", "",
	},
	{
		"refused bundle: wrong runtime", func(w *world) { w.refusedBundle(refusal.WrongRuntime) }, BundleWrongRuntime,
		"", "", "kcp-publisher enroll r-1",
	},
	{
		"refused bundle: wrong cluster", func(w *world) { w.refusedBundle(refusal.WrongCluster) }, BundleWrongRuntime,
		"", "", "",
	},
	{
		"refused bundle: downgrade", func(w *world) { w.refusedBundle(refusal.Downgrade) }, BundleDowngrade, "",
		"", "",
	},
	{
		"refused bundle: not yet issued", func(w *world) { w.refusedBundle(refusal.NotYetIssued) }, BundleClock, "", "",
		"",
	},
	{
		"refused bundle: unknown key", func(w *world) { w.refusedBundle(refusal.UnknownKey) }, BundleKeyUnknown, "", "",
		"",
	},
	{
		"refused bundle: root expired", func(w *world) { w.refusedBundle(refusal.RootExpired) }, BundleRootExpired, "",
		"", "keys rotate",
	},
	{"refused bundle: rollback", func(w *world) { w.refusedBundle(refusal.Rollback) }, BundleReplayed, "", "", ""},
	{
		"refused bundle: component not released", func(w *world) { w.refusedBundle(refusal.NotReleased) },
		BundleNotReleased, "", "", "",
	},
	{
		"refused bundle: bad signature", func(w *world) { w.refusedBundle(refusal.BadSignature) }, BundleRefused, "",
		"", "kcp-publisher why r-1",
	},
	{
		"refused bundle: unknown reason", func(w *world) { w.refusedBundle("Whatever") }, BundleRefused, "",
		"", "",
	},
	{"bundle exceeds the quota in the runtime", func(w *world) {
		w.pending(time.Minute).facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: v1beta2.ReasonStorageRefused, Message: "exceeded quota",
		}
	}, BundleNotKept, "", "exceeded quota", ""},
	{"invalid pins in the runtime", func(w *world) {
		w.facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: v1beta2.ReasonPinsUnreadable, Message: "metadata.annotations: entry x",
		}
	}, RuntimePinsUnreadable, "", "", "kubectl edit kyma default"},
	{"runtime refuses objects", func(w *world) {
		w.facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: "whatever", Message: "ModuleTemplate keda-1.0.0: denied",
		}
	}, ObjectRefused, "", "denied", ""},
	{"Secrets cannot be written", func(w *world) {
		w.facts.Published.Predicate.Sealed = &bundle.Sealed{Revision: "1"}
		w.facts.Report.Secrets = &bundle.ReportedSecrets{
			Revision: "1", Trouble: "secret keda/x: namespace keda does not exist yet",
		}
	}, SecretsNotWritten, "", "does not exist yet", ""},
	{
		"requested modules exceed the report size",
		func(w *world) { w.facts.Report.Truncated = &bundle.Truncated{Requested: 900} },
		ReportTruncated, "", "900 modules", "",
	},
	{"agent rolled back its image", func(w *world) {
		w.facts.Report.AgentProblem = "the agent rolled back its image x, which did not work, and runs y"
	}, AgentRolledBack, "", "rolled back its image", "agent-image"},
	{"agent does not support a setting", func(w *world) {
		w.facts.OmittedFeatures = []bundle.Feature{bundle.FeatureImagePullSecret}
	},
		AgentOutdated, "", "the agent is too old for image-pull-secret", "upgrade-and-skew"},
	{
		"refused bundle: unsupported feature", func(w *world) { w.refusedBundle(refusal.UnsupportedFeature) },
		AgentOutdated, "", "(UnsupportedFeature)", "upgrade",
	},
	{"blocked takeover", func(w *world) {
		w.kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Takeover: &v1beta2.TakeoverStatus{Message: "webhook x of lifecycle-manager is still there"},
		}
		w.kyma.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverActive
	}, TakeoverWaits, "", "webhook x", "takeover status one"},
}

func TestRuntimeHealthReportsFirstCauseAndFix(t *testing.T) {
	seen := map[Situation]bool{}
	for _, scenes := range [][]scene{controlPlaneScenes, wayScenes, runtimeScenes} {
		for _, s := range scenes {
			seen[s.situation] = true
			t.Run(s.name, func(t *testing.T) {
				w := newWorld(t)
				s.change(w)
				s.check(w, w.judged())
			})
		}
	}
	for _, d := range Descriptions() {
		if d.Health != "" && !seen[d.Situation] && d.Situation != ModuleRemark {
			t.Errorf("no test case has situation %s", d.Situation)
		}
	}
}

func (s scene) check(w *world, r Runtime) {
	w.Helper()
	if s.situation == "" {
		if r.Cause != nil || r.Health != s.health {
			w.Errorf("got health %s and cause %+v, want %s without a cause", r.Health, r.Cause, s.health)
		}
		return
	}
	if r.Cause == nil || r.Cause.Situation != s.situation {
		w.Fatalf("got cause %+v, want %s; the conditions are %+v", r.Cause, s.situation, w.kyma.Status.Conditions)
	}
	want := s.health
	if want == "" {
		want = byName[s.situation].Health
	}
	if r.Health != want {
		w.Errorf("got health %s, want %s", r.Health, want)
	}
	w.mustContain(r.Cause.Message, s.message)
	w.mustContain(r.Cause.Advice, s.advice)
}
