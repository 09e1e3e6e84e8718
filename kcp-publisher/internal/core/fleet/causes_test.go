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

// scene is a runtime with a problem and the expected first cause. Its health follows from the situation unless it is
// set.
type scene struct {
	name      string
	change    func(*world)
	situation Situation
	health    Health
	// message and advice are parts of the expected texts.
	message, advice string
}

var controlPlaneScenes = []scene{
	{"a Kyma that is left alone", func(w *world) {
		w.untouched, w.kyma.Labels[v1beta2.LabelSkipReconciliation] = true, "true"
	}, Suspension, "", "by the label operator.kyma-project.io/skip-reconciliation",
		"resume it: kcp-publisher resume one -n kcp-system"},
	{"a Kyma that is left alone for a reason", func(w *world) {
		w.untouched, w.kyma.Labels[v1beta2.LabelSkipReconciliation] = true, "true"
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationSuspendReason: "its owner migrates\n\x1b[2J"}
	}, Suspension, "", "skip-reconciliation: its owner migrates", ""},
	{
		"a Kyma that no publisher has looked at", func(w *world) { w.untouched = true }, NotLookedAt, "",
		"no publisher has reconciled this Kyma yet", "-n kcp-system",
	},
	{"a Kyma whose runtime is another one's", func(w *world) {
		older := *w.kyma.DeepCopy()
		older.Name, older.Status.Runtime = "older", &v1beta2.RuntimeStatus{
			ID: "r-1", Key: &v1beta2.RuntimeKey{Thumbprint: "t"},
		}
		w.never().failed(plan.NewOwners([]v1beta2.Kyma{older, w.kyma}).Check(&w.kyma)).facts.Published = nil
	}, DuplicateRuntimeID, "", "runtime id r-1 already belongs to Kyma kcp-system/older",
		"kubectl label kyma one -n kcp-system"},
	{"two Kymas that name one runtime", func(w *world) {
		other := *w.kyma.DeepCopy()
		other.Name, other.Status.Runtime = "other", nil
		w.never().failed(plan.NewOwners([]v1beta2.Kyma{other, w.kyma}).Check(&w.kyma)).facts.Published = nil
	}, RuntimeUnassigned, "", "no operator has assigned it", "kcp-publisher move r-1 --to one"},
	{"a Kyma whose runtime moved to another control plane", func(w *world) {
		away := *w.kyma.DeepCopy()
		away.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
		w.failed(plan.NewOwners([]v1beta2.Kyma{away}).Check(&away))
	}, RuntimeHandedOver, "", "released to another control plane", "delete this Kyma"},
	{"a runtime whose key two agents use", func(w *world) {
		w.failed(reason.Errorf(reason.CloneDetected,
			"two agents, instances \"a\" and \"b\", report with the key of this runtime"))
	}, CloneDetected, "", "two agents", "stop the copy"},
	{"a Kyma with an invalid runtime id", func(w *world) {
		w.failed(reason.Errorf(reason.RuntimeIDInvalid, "runtime id Ä: want letters"))
	}, RuntimeIDInvalid, "", "want letters", "kubectl label kyma one"},
	{"a Kyma whose label was changed", func(w *world) {
		other := *w.kyma.DeepCopy()
		other.Status.Runtime = &v1beta2.RuntimeStatus{ID: "r-0"}
		w.failed(plan.NewOwners([]v1beta2.Kyma{other}).Check(&other))
	}, RuntimeIDChanged, "", "its runtime is r-0", "restore the label"},
	{"an expired root of trust", func(w *world) {
		w.failed(
			publishing(refusal.New(refusal.RootExpired,
				"the root of trust, version 3, expired at 2026-05-01T00:00:00Z")))
	}, RootExpired, "", "expired at 2026-05-01", "kcp-publisher keys rotate"},
	{"keys that the root does not list", func(w *world) {
		w.failed(
			publishing(refusal.New(refusal.UnknownKey,
				"publisher key abc is not listed in the root of trust, version 3")))
	}, KeysNotAccepted, "", "not listed", "kcp-publisher keys show"},
	{"a key folder of an old backup", func(w *world) {
		w.failed(publishing(refusal.New(refusal.BadRoot, "the key folder is outdated: its root of trust is version 2")))
	}, KeysNotAccepted, "", "outdated", ""},
	{"pins that cannot be read", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationPinnedVersions: "keda:1.0.0"}
		_, err := plan.Rules{}.Request(&w.kyma, nil)
		w.failed(err)
	}, PinsInvalid, "", "want MODULE=VERSION", "kubectl edit kyma one"},
	{"an annotation that cannot be read", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "soon"}
		_, _, err := plan.Rules{}.Allowed(&w.kyma)
		w.failed(err)
	}, AnnotationInvalid, "", `"soon": want true, or a duration`, ""},
	{"a maintenance window that cannot be read", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: "{"}
		_, err := plan.Rules{}.Request(&w.kyma, nil)
		w.failed(err)
	}, AnnotationInvalid, "", "", ""},
	{"a registry that denies the runtime's repository", func(w *world) {
		w.failed(reason.Errorf(reason.RegistryNotAnswering, "the registry answers 403 Forbidden"))
	}, RegistryNotAnswering, "", "403", "kcp-publisher check --location"},
	{"a registry that does not answer for this runtime", func(w *world) {
		w.failed(reason.Errorf(reason.RegistryNotAnswering,
			"the registry responds, but the requests for this runtime fail: see the publisher's log"))
	}, RegistryNotAnswering, "", "", ""},
	{"a bundle that could not be made", func(w *world) {
		w.failed(publishing(errors.New("its desired state changes too often")))
	}, PublishFailed, "", "changes too often", ""},
	{"an image pull Secret that is not there", func(w *world) {
		w.facts.SecretsError = reason.Errorf(reason.SecretMissing,
			"image pull Secret kcp-system/pull not found: create it, or run without --image-pull-secret")
	}, SecretMissing, "", "not found", ""},
	{"a Secret that cannot be sealed", func(w *world) {
		w.facts.SecretsError = errors.New(
			"seal Secrets: the runtime's agent reports no recipient for Secrets: upgrade the agent")
	}, SecretsNotSealed, "", "reports no recipient", ""},

	{
		"a mistyped module", func(w *world) { w.asks(v1beta2.Module{Name: "kdea"}, nil) }, ModuleUnknown, "",
		"module kdea is Warning: module kdea: is unknown", "kubectl get modulereleasemetas -n kcp-system",
	},
	{
		"a mistyped module of a runtime that was never enrolled",
		func(w *world) { w.never().asks(v1beta2.Module{Name: "kdea"}, nil) }, ModuleUnknown, "", "is unknown", "",
	},
	{
		"a channel without the module", func(w *world) { w.asks(v1beta2.Module{Name: "keda", Channel: "slow"}, nil) },
		ChannelMissing, "", `channel "slow" has no version`, "kubectl edit modulereleasemeta keda",
	},
	{
		"a version without a template", func(w *world) { w.asks(v1beta2.Module{Name: "keda", Channel: "fast"}, nil) },
		TemplateMissing, "", "add keda-1.1.0", "",
	},
	{
		"a pin to a version that is not there",
		func(w *world) {
			w.asks(v1beta2.Module{Name: "keda", Version: "9.9.9"}, nil)
		}, PinUnavailable, "", "to which the Kyma pins it", "",
	},
	{
		"a beta module for everybody else", func(w *world) { w.asks(v1beta2.Module{Name: "beta"}, nil) },
		ModuleNotOffered, "", "not offered to this runtime", "kubectl label kyma one",
	},
	{"a version with two templates", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.TemplateDoubled,
				Message: "module keda: version 1.0.0 has two ModuleTemplates: remove kcp-system/a or kcp-system/b"})
	}, TemplateDoubled, "", "remove kcp-system/a", ""},
	{"a template that cannot be used", func(w *world) {
		w.facts.Problems = append(w.facts.Problems, bundle.Problem{
			Module: "keda", State: v1beta2.StateWarning, Reason: reason.CatalogInvalid, Message: "x",
		})
	}, CatalogInvalid, "", "x", ""},
	{"a problem without a reason", func(w *world) {
		w.facts.Problems = append(w.facts.Problems, bundle.Problem{
			Module: "keda", State: v1beta2.StateError, Message: "is unknown",
		})
	}, ModuleUnresolved, "", "is unknown", ""},
	{"a component that is nowhere", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(fmt.Errorf("component kyma-pull.dev/module/keda:1.0.0: %w in registry.example/modules",
				component.ErrMissing)))
	}, ComponentNotFound, "", "component version not found", "--components"},
	{"a component that was not signed", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(reason.Errorf(reason.ComponentUnsigned,
				"component kyma-pull.dev/module/keda:1.0.0: is not signed: the policy's rule for * requires release")))
	}, ComponentUnsigned, "", "is not signed", "component verify"},
	{"a component that cannot be read", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"},
			broken(errors.New("component kyma-pull.dev/module/keda:1.0.0: has nothing to install")))
	}, ComponentBroken, "", "nothing to install", "component show"},
	{"a module of lifecycle-manager in a version that is not offered", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.ModuleNotInherited,
				Message: "module keda: stays as lifecycle-manager installed it, and cannot be taken over in version " +
					"0.9.0: ModuleTemplate keda-0.9.0 does not exist"})
	}, ModuleNotInherited, "", "in version 0.9.0", "takeover plan one"},
	{"a module whose removal waits for an approval", func(w *world) {
		w.facts.Problems = append(w.facts.Problems,
			bundle.Problem{Module: "keda", State: v1beta2.StateWarning, Reason: reason.RemovalHeld,
				Message: "module keda: its removal waits for an operator's approval"})
	}, RemovalHeld, "", "waits for an operator's approval", "removals approve"},
	{"a deleted Kyma whose runtime keeps its modules", func(w *world) {
		w.facts.Removals.Held = map[string]removal.Reason{"": removal.NamespaceDeleted}
	}, RemovalHeld, "", "the namespace of the Kymas is being deleted", "removals approve"},
	{"a commit that is applied in part", func(w *world) { w.holding = "commit 3f0c is applied in part" }, CommitHeld,
		"",
		"commit 3f0c is applied in part", "kyma-pull-git"},
	{"a channel that went back without a rollout", func(w *world) {
		w.asks(v1beta2.Module{Name: "keda"}, nil, func(r *resolve.Request) {
			r.Versions = map[string]string{"keda": "1.5.0"}
		})
	}, OlderVersionAsked, "", "stays at version 1.5.0", "rollout list"},
	{"a module with a value that the runtime does not have", func(w *world) {
		w.reports("keda", "Error", "module keda: value region is not defined for this runtime").because("keda",
			reason.ValueUndefined)
	}, ValueUndefined, "", "value region", "kyma-pull.dev/values"},
}

var wayScenes = []scene{
	{"a registry that lost the bundle", func(w *world) {
		w.facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleMissing, Message: "the registry has no bundle of the runtime any more",
		}
	}, RegistryLost, "", "no bundle", ""},
	{"a registry that lost the bundle of a broken module", func(w *world) {
		w.reports("keda", "Error", "Deployment keda cannot start").facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleIncomplete, Message: "its documents are gone",
		}
	}, ModuleBroken, "", "", ""},
	{"a registry with a stranger's bundle", func(w *world) {
		w.facts.Deviation = &plan.Deviation{
			Reason: v1beta2.ReasonBundleForeign, Message: "what is there was signed by nobody",
		}
	}, RegistryTampered, "", "", "access log"},
	{"a revoked key", func(w *world) {
		w.pending(time.Minute).
			refusedReport(refusal.Revoked,
				"signed with key +lYYa, which is revoked: delete the agent's key and enroll it again")
	}, KeyRevoked, "", "which is revoked", "kcp-publisher enroll r-1"},
	{"a token that was used", func(w *world) {
		w.never().
			refusedReport(refusal.NotEnrolled,
				"enrollment: the token was used before: run `kcp-publisher enroll` again")
	}, EnrollmentRefused, "", "used before", "kcp-publisher enroll r-1"},
	{"another agent of the same id", func(w *world) {
		w.refusedReport(refusal.ForeignKey, "signed with key abc, which is not the runtime's key")
	}, ForeignKey, "", "", "kcp-publisher revoke r-1"},
	{"a clock that is days ahead", func(w *world) {
		w.refusedReport(refusal.NotYetIssued, "report 5 is of 2026-05-07, 72h ahead of this clock")
	}, RuntimeClockAhead, "", "ahead", ""},
	{
		"a report that means nothing",
		func(w *world) {
			w.refusedReport(refusal.Malformed, "report: runtime: is empty")
		}, ReportRefused, "", "Malformed", "",
	},
	{
		"a runtime that was never enrolled", func(w *world) { w.never() }, NeverEnrolled, "",
		"the runtime has never reported", "kcp-publisher enroll r-1",
	},
	{"a runtime that was never carried to", func(w *world) {
		w.never().kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.Carried = true
	}, NeverCarried, "", "never reported", "kcp-publisher export r-1"},
	{"a report that the registry does not give", func(w *world) {
		w.never().facts.ReportUnread = errors.New("the registry answers 403 Forbidden")
	}, ReportUnreadable, "", "cannot be read: the registry answers 403", ""},
	{
		"a silent runtime", func(w *world) { w.lastReport = noon.Add(-3 * time.Hour) }, NotHeard, "",
		"more than the allowed 30m0s ago", "runtime-gone",
	},
	{"a silent runtime while the newest bundle waits", func(w *world) {
		w.pending(time.Hour).lastReport = noon.Add(-3 * time.Hour)
	}, NotHeard, "", "more than the allowed", ""},
	{"reports that are carried and too old", func(w *world) {
		w.kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "true"}
		w.facts.Carried, w.facts.Silence = true, 90*24*time.Hour
		w.lastReport, w.facts.Report.Time = noon.Add(-100*24*time.Hour), noon.Add(-100*24*time.Hour)
	}, CarriedTooOld, "", "", "import-report"},
	{"a publisher that does not run any more", func(w *world) {
		w.kyma = *w.status()
		w.untouched, w.now = true, noon.Add(30*time.Hour)
	}, PublisherAbsent, "", "no publisher is reading reports", ""},
	{
		"a clock that is behind", func(w *world) { w.facts.Report.Time = noon.Add(-72 * time.Hour) },
		RuntimeClockBehind, "", "", "",
	},

	{
		"an expired bundle", func(w *world) { w.facts.Report.Observed.Expired = true }, BundleExpired, "",
		"has expired", "",
	},
	{
		"a bundle that was refused because it had expired", func(w *world) { w.refusedBundle(refusal.Expired) },
		BundleExpired, "", "(Expired)", "",
	},
	{
		"a bundle of another runtime", func(w *world) { w.refusedBundle(refusal.WrongRuntime) }, BundleWrongRuntime, "",
		"", "kcp-publisher enroll r-1",
	},
	{
		"a cluster that was made anew", func(w *world) { w.refusedBundle(refusal.WrongCluster) }, BundleWrongRuntime,
		"", "", "",
	},
	{
		"a bundle with an older version", func(w *world) { w.refusedBundle(refusal.Downgrade) }, BundleDowngrade, "",
		"", "",
	},
	{"a bundle of the future", func(w *world) { w.refusedBundle(refusal.NotYetIssued) }, BundleClock, "", "", ""},
	{
		"a bundle of an unknown key", func(w *world) { w.refusedBundle(refusal.UnknownKey) }, BundleKeyUnknown, "", "",
		"",
	},
	{
		"an agent without a valid root", func(w *world) { w.refusedBundle(refusal.RootExpired) }, BundleRootExpired, "",
		"", "keys rotate",
	},
	{"a bundle that was shown again", func(w *world) { w.refusedBundle(refusal.Rollback) }, BundleReplayed, "", "", ""},
	{
		"a component that was not released", func(w *world) { w.refusedBundle(refusal.NotReleased) }, BundleNotReleased,
		"", "", "",
	},
	{
		"a bundle that is no bundle", func(w *world) { w.refusedBundle(refusal.BadSignature) }, BundleRefused, "", "",
		"kcp-publisher why r-1",
	},
	{
		"a refusal for a reason that nobody knows", func(w *world) { w.refusedBundle("Whatever") }, BundleRefused, "",
		"", "",
	},
	{"a bundle that there is no room for", func(w *world) {
		w.pending(time.Minute).facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: v1beta2.ReasonStorageRefused, Message: "exceeded quota",
		}
	}, BundleNotKept, "", "exceeded quota", ""},
	{"pins of the runtime that cannot be read", func(w *world) {
		w.facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: v1beta2.ReasonPinsUnreadable, Message: "metadata.annotations: entry x",
		}
	}, RuntimePinsUnreadable, "", "", "kubectl edit kyma default"},
	{"objects that the runtime refuses", func(w *world) {
		w.facts.Report.Trouble = &bundle.ReportedTrouble{
			Reason: "whatever", Message: "ModuleTemplate keda-1.0.0: denied",
		}
	}, ObjectRefused, "", "denied", ""},
	{"Secrets that cannot be written", func(w *world) {
		w.facts.Published.Predicate.Sealed = &bundle.Sealed{Revision: "1"}
		w.facts.Report.Secrets = &bundle.ReportedSecrets{
			Revision: "1", Trouble: "secret keda/x: namespace keda is not there yet",
		}
	}, SecretsNotWritten, "", "not there yet", ""},
	{
		"more wishes than fit a report", func(w *world) { w.facts.Report.Truncated = &bundle.Truncated{Asked: 900} },
		ReportTruncated, "", "900 modules", "",
	},
	{"an agent that went back to its former image", func(w *world) {
		w.facts.Report.AgentProblem = "the agent rolled back its image x, which did not work, and runs y"
	}, AgentRolledBack, "", "rolled back its image", "agent-image"},
	{"an agent that is too old for a setting", func(w *world) {
		w.facts.LeftOut = []bundle.Feature{bundle.FeatureImagePullSecret}
	},
		AgentOutdated, "", "the agent is too old for image-pull-secret", "upgrade-and-skew"},
	{
		"a bundle with a feature that the agent lacks", func(w *world) { w.refusedBundle(refusal.UnsupportedFeature) },
		AgentOutdated, "", "(UnsupportedFeature)", "upgrade",
	},
	{"a takeover that cannot go on", func(w *world) {
		w.kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Takeover: &v1beta2.TakeoverStatus{Message: "webhook x of lifecycle-manager is still there"},
		}
		w.kyma.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverActive
	}, TakeoverWaits, "", "webhook x", "takeover status one"},
}

func TestJudgeNamesTheFirstCauseAndTheFix(t *testing.T) {
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
			t.Errorf("no scene comes to %s", d.Situation)
		}
	}
}

func (s scene) check(w *world, r Runtime) {
	w.Helper()
	if s.situation == "" {
		if r.Cause != nil || r.Health != s.health {
			w.Errorf("got %s with %+v, want %s and no cause", r.Health, r.Cause, s.health)
		}
		return
	}
	if r.Cause == nil || r.Cause.Situation != s.situation {
		w.Fatalf("got %+v, want %s; the Kyma reports %+v", r.Cause, s.situation, w.kyma.Status.Conditions)
	}
	want := s.health
	if want == "" {
		want = byName[s.situation].Health
	}
	if r.Health != want {
		w.Errorf("health is %s, want %s", r.Health, want)
	}
	w.mustContain(r.Cause.Message, s.message)
	w.mustContain(r.Cause.Advice, s.advice)
}
