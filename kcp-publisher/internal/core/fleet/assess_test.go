package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func kymaCalled(t *testing.T, id string, change func(*world)) v1beta2.Kyma {
	w := newWorld(t)
	w.kyma.Name, w.kyma.Labels = id, map[string]string{v1beta2.LabelRuntimeID: id}
	change(w)
	return *w.status().DeepCopy()
}

func TestAssessmentCountsHealthCausesAndVersions(t *testing.T) {
	kymas := []v1beta2.Kyma{
		kymaCalled(t, "r-3", func(w *world) { w.reports("mail", "Error", "Deployment mail cannot start") }),
		kymaCalled(t, "r-1", func(*world) {}),
		kymaCalled(t, "r-2", func(w *world) {
			w.facts.Report.Modules[0].Version, w.facts.Report.Modules[0].Maintenance = "0.9.0", true
		}),
		kymaCalled(t, "r-4", func(w *world) { w.never() }),
		kymaCalled(t, "r-5", func(w *world) { w.lastReport = noon.Add(-2 * time.Hour) }),
		kymaCalled(t, "r-6", func(w *world) { w.lastReport = noon.Add(-3 * time.Hour) }),
	}
	meta := v1beta2.ModuleReleaseMeta{
		Spec: v1beta2.ModuleReleaseMetaSpec{
			ModuleName: "keda",
			Channels: []v1beta2.ChannelVersion{
				{Channel: "regular", Version: "1.0.0"}, {Channel: "fast", Version: "1.1.0"},
			},
		},
	}
	unused := v1beta2.ModuleReleaseMeta{Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "unused"}}
	f := Assess(Input{Kymas: kymas, Metas: []v1beta2.ModuleReleaseMeta{unused, meta}, Now: noon})

	ids := []string{}
	for _, r := range f.Runtimes {
		ids = append(ids, r.ID)
	}
	if !slices.IsSorted(ids) || len(ids) != len(kymas) {
		t.Errorf("got runtimes %v, want %d in sorted order", ids, len(kymas))
	}
	summary, err := json.Marshal(f.Summary)
	want := `{"total":6,"health":{"Failing":1,"Healthy":2,"NeverReported":1,"Silent":2},` +
		`"situations":{"ModuleBroken":1,"NeverEnrolled":1,"Silent":2,"WindowAwaited":1},"oldestReport":"2026-05-04T09:00:00Z"}`
	if err != nil || string(summary) != want {
		t.Errorf("got %s, %v\nwant %s", summary, err, want)
	}
	modules, err := json.Marshal(f.Modules)
	want = `[{"name":"keda","channels":{"fast":"1.1.0","regular":"1.0.0"},"versions":[{"version":"1.0.0","states":{"Ready":4}},{"version":"0.9.0","states":{"Ready":1}},` +
		`{"version":"","states":{"Processing":1}}]},{"name":"mail","versions":[{"version":"1.0.0","states":{"Error":1,"Ready":4}},{"version":"","states":{"Processing":1}}]},{"name":"unused"}]`
	if err != nil || string(modules) != want {
		t.Errorf("got %s, %v\nwant %s", modules, err, want)
	}
	if r := f.Runtimes[0]; r.Agent != "v0.1.0" || r.Kubernetes != "v1.36.3" || r.Published != 7 || r.InForce != 7 ||
		r.Channel != "regular" || !r.Reporting ||
		!r.LastReport.Equal(noon.Add(-time.Minute)) ||
		r.Kyma != "r-1" ||
		r.Namespace != "kcp-system" ||
		r.Modules[0].Asked != "1.0.0" {
		t.Errorf("got unexpected details of r-1: %+v", r)
	}
	if len(f.Warnings) != 0 {
		t.Errorf("got warnings %+v, want none", f.Warnings)
	}
}

func TestActiveRolloutsComeFirst(t *testing.T) {
	w := newWorld(t)
	at := func(name string, hours int) func(*v1alpha1.Rollout) {
		return func(r *v1alpha1.Rollout) {
			started := metav1.NewTime(noon.Add(time.Duration(hours) * time.Hour))
			r.Name, r.Status.StartedAt = name, &started
		}
	}
	w.rollout(v1alpha1.RolloutSucceeded, at("old", -9)).rollout(v1alpha1.RolloutRolledBack, at("newer", -1)).
		rollout(v1alpha1.RolloutPaused, at("paused", -8)).rollout(v1alpha1.RolloutProgressing, at("going", -2))
	names := []string{}
	for _, r := range Assess(Input{Rollouts: w.rollouts, Now: noon}).Rollouts {
		names = append(names, fmt.Sprint(r.Name, " ", r.Active))
	}
	if got := strings.Join(names, ", "); got != "going true, paused true, newer false, old false" {
		t.Errorf("got rollouts %s, want active rollouts first, then the most recently started", got)
	}
}

func TestFleetWideProblemsAreWarnings(t *testing.T) {
	silent := func(n int) (kymas []v1beta2.Kyma) {
		for i := range 4 {
			kymas = append(kymas, kymaCalled(t, fmt.Sprint("r-", i), func(w *world) {
				if i < n {
					w.lastReport = noon.Add(-2 * time.Hour)
				}
			}))
		}
		return kymas
	}
	certified := func(ago, left time.Duration) (kymas []v1beta2.Kyma) {
		for i := range 4 { // each Kyma also has a broken module
			kymas = append(
				kymas,
				kymaCalled(t, fmt.Sprint("r-", i), func(w *world) {
					w.certified(ago, left).reports("keda", "Error", "x")
				}),
			)
		}
		return kymas
	}
	rejected := v1alpha1.Rollout{
		Spec: v1alpha1.RolloutSpec{Module: "keda", Channel: "regular", From: "1.0.0", To: "1.1.0"},
	}
	rejected.Name, rejected.Status.State = "keda-regular-1", v1alpha1.RolloutRolledBack
	channel := func(version string) (meta v1beta2.ModuleReleaseMeta) {
		meta.Spec.ModuleName, meta.Spec.Channels = "keda",
			[]v1beta2.ChannelVersion{{Channel: "regular", Version: version}}
		return meta
	}
	rejecting, before := channel("1.1.0"), channel("1.0.0")
	trainWith := func(reason v1alpha1.WaitReason) []v1alpha1.PromotionPolicy {
		at := v1alpha1.TrainVersion{Channel: "dev", Version: "1.1.0", Reason: reason}
		return []v1alpha1.PromotionPolicy{{Status: v1alpha1.PromotionPolicyStatus{
			Modules: []v1alpha1.ModuleTrain{{Name: "keda", Versions: []v1alpha1.TrainVersion{at}}},
		}}}
	}
	for name, c := range map[string]struct {
		in   Input
		want Situation
	}{
		"certificates were not renewed in time": {
			Input{Kymas: certified(61*24*time.Hour, 29*24*time.Hour)}, CertificatesEnd,
		},
		"certificates have expired": {
			Input{Kymas: certified(91*24*time.Hour, -24*time.Hour)}, CertificatesEnd,
		},
		"certificates are valid":                 {Input{Kymas: certified(30*24*time.Hour, 60*24*time.Hour)}, ""},
		"root of trust expires in a week":        {Input{RootExpires: noon.Add(7 * 24 * time.Hour)}, RootExpiresSoon},
		"root of trust has expired":              {Input{RootExpires: noon}, RootExpired},
		"root of trust expires in a year":        {Input{RootExpires: noon.Add(365 * 24 * time.Hour)}, ""},
		"expiry of the root of trust is unknown": {Input{}, ""},
		"commit is partially applied": {
			Input{Held: "commit 123 is being applied to the control plane"}, CommitHolds,
		},
		"bundles omit a catalog object": {
			Input{LeftOut: []LeftOutObject{{"ModuleTemplate a/b", "ModuleTemplate a/b: too large"}}}, CatalogObjectLeftOut,
		},
		"channel has a rejected version": {
			Input{Metas: []v1beta2.ModuleReleaseMeta{rejecting}, Rollouts: []v1alpha1.Rollout{rejected}},
			VersionRejected,
		},
		"channel has the version before the rejected one": {
			Input{Metas: []v1beta2.ModuleReleaseMeta{before}, Rollouts: []v1alpha1.Rollout{rejected}}, "",
		},
		"policy is invalid": {
			Input{InvalidPolicies: []InvalidPolicy{{"kcp-system", "careful", "spec.waves[0].soak"}}}, PolicyInvalid,
		},
		"policy names unknown modules only": {
			Input{UnmatchedPolicies: []UnmatchedPolicy{{"kcp-system", "careful", []string{"kedda"}}}}, PolicyUnmatched,
		},
		"promotion train is blocked":        {Input{Trains: trainWith(v1alpha1.WaitTooManyFailures)}, TrainBlocked},
		"promotion train waits for a time":  {Input{Trains: trainWith(v1alpha1.WaitTimeNotReached)}, ""},
		"three of four runtimes are silent": {Input{Kymas: silent(3)}, FleetSilent},
		"two of four runtimes are silent":   {Input{Kymas: silent(2)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Now = noon
			f := Assess(c.in)
			var got Situation
			if len(f.Warnings) > 0 {
				got = f.Warnings[0].Situation
			}
			if got != c.want || len(f.Warnings) > 1 || got != "" &&
				(f.Warnings[0].Message == "" || f.Warnings[0].Advice == "") {
				t.Errorf("got %+v, want %s", f.Warnings, c.want)
			}
		})
	}
}

func TestCertificateWarningListsFirstRuntimes(t *testing.T) {
	var kymas []v1beta2.Kyma
	add := func(id string, change func(*world)) {
		kymas = append(kymas, kymaCalled(t, id, func(w *world) {
			change(w.certified(61*24*time.Hour, 29*24*time.Hour))
		}))
	}
	for i := range 5 {
		add(fmt.Sprint("r-", i), func(*world) {})
	}
	// Silent runtimes are not part of the warning, because they cannot renew a certificate.
	add("silent", func(w *world) { w.lastReport = noon.Add(-2 * time.Hour) })
	f := Assess(Input{Kymas: kymas, Now: noon})
	if len(f.Warnings) != 1 ||
		f.Warnings[0].Message != "5 agent certificates have expired or expire soon (r-0, r-1, r-2, 2 others)" {
		t.Errorf("got warnings %+v, want one about 5 certificates that lists 3 runtimes", f.Warnings)
	}
	if end := f.Runtimes[0].CertificateExpires; end == nil || !end.Equal(noon.Add(29*24*time.Hour)) {
		t.Errorf("the certificate of %s expires at %v", f.Runtimes[0].ID, end)
	}
}

func TestTextFromRuntimesIsBoundedAndPrintable(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;owned\x07\u202e" + strings.Repeat("x", 1<<20)
	w := newWorld(t)
	w.reports("keda", "Error", hostile)
	w.facts.Report.AgentVersion, w.facts.Report.KubernetesVersion = hostile, hostile
	w.facts.Report.Modules[1].Version = hostile
	w.facts.Published.State.Manifests = append(w.facts.Published.State.Manifests, manifest("$(reboot); MODULE\n"))
	w.facts.Report.Modules = append(w.facts.Report.Modules, ready("$(reboot); MODULE\n"))
	w.status()
	w.kyma.Status.Modules = append(w.kyma.Status.Modules, v1beta2.ModuleStatus{
		Name: hostile, Version: hostile, Channel: hostile, State: "Error", Message: hostile,
	})
	w.untouched = true
	w.rollout(v1alpha1.RolloutStopped, func(r *v1alpha1.Rollout) {
		r.Status.Message, r.Status.Failures = hostile, []v1alpha1.RuntimeFailure{{Runtime: "r-1", Reason: hostile}}
	})
	f := Assess(Input{Kymas: []v1beta2.Kyma{w.kyma}, Rollouts: w.rollouts, Now: noon})
	data, err := json.Marshal(f)
	if err != nil || len(data) > 32<<10 {
		t.Errorf("got %d bytes and %v, want at most 32 KiB", len(data), err)
	}
	shown := fmt.Sprintf("%+v", f) + fmt.Sprint(*f.Runtimes[0].Cause)
	if strings.ContainsAny(shown, "\x1b\x07\u202e") {
		t.Error("the text contains terminal control characters")
	}
}

func TestNamesInAdviceAreSafeForAShell(t *testing.T) {
	for name, want := range map[string]string{
		"keda": "keda", "kyma-system/keda_1.x": "kyma-system/keda_1.x", "$(reboot)": "MODULE", "a b": "MODULE",
		"a;b": "MODULE", "": "MODULE", "-rf": "MODULE", "a\nb": "MODULE",
		strings.Repeat("a", 300): "MODULE",
	} {
		if got := shellWord(name, "MODULE"); got != want {
			t.Errorf("name %q: got %q, want %q", name, got, want)
		}
	}
}

func TestModuleHealthIgnoresOtherModules(t *testing.T) {
	w := newWorld(t).reports("mail", "Error", "x").reports("keda", "Ready", "is taken over in version 1.0.0")
	kyma := w.status()
	if r, known := JudgeModule(kyma, "keda", Rollouts{}, noon); !known || r.Cause == nil ||
		r.Cause.Situation != ModuleRemark ||
		len(r.Modules) != 1 ||
		r.Cause.Message != "module keda is Ready in version 1.0.0: is taken over in version 1.0.0" ||
		r.Health != Healthy {
		t.Errorf("module keda: got health %s and cause %+v, want Healthy with a remark", r.Health, r.Cause)
	}
	if r, _ := JudgeModule(kyma, "mail", Rollouts{}, noon); r.Cause == nil || r.Cause.Situation != ModuleBroken {
		t.Errorf("module mail: got cause %+v, want %s", r.Cause, ModuleBroken)
	}
	if _, known := JudgeModule(kyma, "serverless", Rollouts{}, noon); known {
		t.Error("JudgeModule found a module that the Kyma does not request")
	}
}

func TestOmittedObjectWarningsAreLimited(t *testing.T) {
	objects := make([]LeftOutObject, 12)
	for i := range objects {
		name := fmt.Sprintf("ModuleTemplate kcp-system/a-%02d", i)
		objects[i] = LeftOutObject{name, name + ": the object is 1048653 bytes"}
	}
	all := LeftOutWarnings(objects)
	const first = "all bundles omit ModuleTemplate kcp-system/a-00: the object is 1048653 bytes"
	if len(all) != 11 || all[0].Message != first ||
		all[10].Message != "all bundles omit 2 more catalog objects" {
		t.Errorf("got %+v, want 10 warnings with an object and one with the number of others", all)
	}
	for i := range all {
		for j := range i {
			if all[i].IsSameProblem(all[j]) {
				t.Errorf("warnings %d and %d count as the same problem", j, i)
			}
		}
	}
}
