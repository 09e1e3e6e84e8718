package scenario

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// earlier is a commit from before there were features. Its programs refuse fields that they do not know, and know
// nothing of takeovers, a Secret to pull images with, and labels of kyma-system.
const earlier = "414502e1970ae67cac9d25a05dd5535a7b945a6f"

// previous is a commit that has features: its agents list them, and skip fields that they do not know.
const previous = "31e75d29c5dc0747f6d0f301fecbd06393e5ea47"

// programsAt builds the programs of a commit, which must be in the history of every whole clone.
func programsAt(t *testing.T, commit string) fleet.Binaries {
	t.Helper()
	programs, err := fleet.BuildAt(t.Context(), commit)
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skip(err)
	}
	must(t, err)
	return programs
}

// carried carries the runtime's newest bundle by a file, and its newest report back, with programs of two versions,
// and then what is new since that report. It begins again where another bundle was published in the middle of it.
func carried(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, publisher, agent fleet.Binaries) {
	t.Helper()
	until(t, time.Minute, "bundle and report of "+r.ID+" are carried", func() (bool, string) {
		said := carry(t, f, r, publisher, agent)
		return said == "", said
	})
}

// carry returns what went wrong. The report comes to a place of its own: where the agent reports, a newer one may
// have followed.
func carry(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, publisher, agent fleet.Binaries) string {
	t.Helper()
	dir := t.TempDir()
	file, report, target := filepath.Join(dir, "file.tar.zst"), filepath.Join(dir, "report.json"), "oci-layout:"+filepath.Join(dir, "target")
	trust := filepath.Join(f.Keys(), "root.json")
	export := []string{"export", r.ID, "--from", f.Location(), "--keys", f.Keys(), "-o", file, "--zstd"}
	load := []string{"import", file, "--to", target, "--trust", trust}
	for _, command := range []struct {
		program string
		args    []string
	}{
		{publisher.Publisher, export},
		{agent.Agent, load},
		{agent.Agent, []string{"verify", target, "--runtime", r.ID, "--trust", trust}},
		{agent.Agent, []string{"export-report", "--location", f.Location(), "--runtime", r.ID, "-o", report}},
		{publisher.Publisher, []string{"import-report", report, "--to", "oci-layout:" + filepath.Join(dir, "reports")}},
		{publisher.Publisher, slices.Concat(export, []string{"--since", report})},
		{agent.Agent, load},
	} {
		if output, code := fleet.Run(t.Context(), command.program, command.args...); code != 0 {
			return fmt.Sprintf("%s %v: exit code %d\n%s", filepath.Base(command.program), command.args, code, output)
		}
	}
	return ""
}

// untilUnderstood waits until the control plane says whether the agent understands all of its bundle.
func untilUnderstood(t *testing.T, r *fleet.Runtime, status metav1.ConditionStatus, reason string) {
	t.Helper()
	until(t, 90*time.Second, "condition Features is "+reason, func() (bool, string) {
		record, err := r.Record(t.Context())
		must(t, err)
		c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionFeatures)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprint(record.Status.Conditions)
	})
}

// wantNothingLeftOut fails the test if the runtime's agent was too old for anything yet.
func wantNothingLeftOut(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	if c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionFeatures); c != nil {
		t.Errorf("%s: %+v", r.ID, c)
	}
	if len(record.Status.Runtime.Observed.Features) == 0 {
		t.Errorf("%s lists no features", r.ID)
	}
}

// untilLabeled waits until kyma-system has the label for sidecars, or not.
func untilLabeled(t *testing.T, r *fleet.Runtime, want string) {
	t.Helper()
	until(t, 60*time.Second, "kyma-system has istio-injection="+want, func() (bool, string) {
		var namespace corev1.Namespace
		must(t, r.API.Get(t.Context(), client.ObjectKey{Name: v1beta2.RuntimeNamespace}, &namespace))
		return namespace.Labels["istio-injection"] == want, fmt.Sprint(namespace.Labels)
	})
}

func TestEarlierProgramsWorkWithCurrentOnes(t *testing.T) {
	suite.Long(t)
	before, between := programsAt(t, earlier), programsAt(t, previous)
	today, err := fleet.Build()
	must(t, err)
	const label = "--runtime-namespace-label=istio-injection=enabled"
	f := newFleet(t, fleet.Options{PublisherFlags: []string{label, "--keys-poll-interval=1s"}})

	// The publisher is newer: its first bundle, written before the agent reported, has a setting that the agent
	// refuses. The next one does without.
	f.Use(fleet.Binaries{Agent: before.Agent})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	untilUnderstood(t, berlin, metav1.ConditionFalse, v1beta2.ReasonAgentOutdated)
	output, err := f.Why(t.Context(), "berlin")
	must(t, err)
	if !strings.Contains(output, "the agent is too old for namespace-labels") {
		t.Errorf("why says:\n%s", output)
	}
	// Another runtime has the agent of the version between, which understands all of it. A rollout reaches both, one
	// after the other.
	f.Use(fleet.Binaries{Agent: between.Agent})
	paris := runtimeWith(t, f, "paris", map[string]string{"scaler": "1.7.0"})
	untilLabeled(t, paris, "enabled")
	waves := []v1alpha1.Wave{{Name: "first", Count: new(int32(1))}, {Name: "others", Percent: new(int32(100))}}
	must(t, f.Police(t.Context(), "scaler", v1alpha1.Course{Waves: waves}))
	promote(t, f, "1.8.0")
	for _, r := range []*fleet.Runtime{berlin, paris} {
		must(t, r.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
	}
	must(t, f.UntilRollout(t.Context(), firstRollout, "it succeeds over agents of two versions", rolledOut(v1alpha1.RolloutSucceeded)))
	untilLabeled(t, berlin, "")
	wantNothingLeftOut(t, paris)

	// Both follow a root of trust that today's program has rotated, and read carried files.
	ended(t, 0, today.Publisher, "keys", "rotate", "publisher", "--keys", f.Keys())
	for _, r := range []*fleet.Runtime{berlin, paris} {
		untilRoot(t, r, 2)
	}
	carried(t, f, berlin, today, before)
	carried(t, f, paris, today, between)

	// The agent is upgraded, and gets what was left out.
	f.Use(fleet.Binaries{Agent: today.Agent})
	berlin.Agent().Stop()
	must(t, berlin.StartAgent())
	untilUnderstood(t, berlin, metav1.ConditionTrue, v1beta2.ReasonUnderstood)
	untilLabeled(t, berlin, "enabled")

	// The agent is newer: an earlier publisher reads its reports, and installs, upgrades and removes.
	f.Use(fleet.Binaries{Publisher: before.Publisher})
	must(t, f.RestartPublisher())
	must(t, berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, berlin.UntilState(t.Context(), "mailer", "1.0.0", v1beta2.StateReady))
	carried(t, f, berlin, before, today)

	// The version between is as good with the newer agent of one runtime, and with its own.
	f.Use(fleet.Binaries{Publisher: between.Publisher})
	must(t, f.RestartPublisher(label))
	must(t, paris.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, paris.UntilState(t.Context(), "mailer", "1.0.0", v1beta2.StateReady))
	untilUnderstood(t, berlin, metav1.ConditionTrue, v1beta2.ReasonUnderstood)
	carried(t, f, berlin, between, today)

	// The agent goes back as well, and nobody has taken back what it cannot read: it refuses that, reports, and gets
	// a bundle without.
	f.Use(fleet.Binaries{Agent: before.Agent})
	berlin.Agent().Stop()
	must(t, berlin.StartAgent())
	must(t, berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:1] }))
	must(t, berlin.UntilGone(t.Context(), "mailer"))
	f.Use(fleet.Binaries{Publisher: today.Publisher})
	must(t, f.RestartPublisher(label))
	untilUnderstood(t, berlin, metav1.ConditionFalse, v1beta2.ReasonAgentOutdated)
	must(t, berlin.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
}

// untilNamed waits until the control plane says that a module waits for a newer agent, in the module's entry, the
// condition and why.
func untilNamed(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, module, feature string) {
	t.Helper()
	said := "the agent is too old for " + feature
	until(t, 90*time.Second, "the control plane says that "+said, func() (bool, string) {
		record, err := r.Record(t.Context())
		must(t, err)
		c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionFeatures)
		ok := c != nil && c.Reason == v1beta2.ReasonAgentOutdated && strings.Contains(c.Message, feature) && strings.Contains(moduleOf(record, module).Message, said)
		return ok, fmt.Sprintf("%+v, %+v", c, record.Status.Modules)
	})
	output, err := f.Why(t.Context(), r.ID)
	must(t, err)
	if !strings.Contains(output, said) {
		t.Errorf("why says:\n%s", output)
	}
}

// TestEarlierAgentGetsCriticalFeaturesAfterUpgrade offers an agent from before features a version that it must
// not install, and a module in the place of one that it has. It would install the first as it can, and uninstall what
// the second takes over.
func TestEarlierAgentGetsCriticalFeaturesAfterUpgrade(t *testing.T) {
	suite.Long(t)
	before := programsAt(t, earlier)
	today, err := fleet.Build()
	must(t, err)
	f := newFleet(t, fleet.Options{})
	f.Use(fleet.Binaries{Agent: before.Agent})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	had, err := settings(t.Context(), berlin)
	must(t, err)

	needs := sample.Mailer("1.1.0")
	must(t, needs.Push(t.Context(), f.Modules))
	template := needs.Template()
	template.Annotations = map[string]string{v1beta2.AnnotationRequiresFeatures: "recreate"}
	must(t, f.Control.Create(t.Context(), template))
	must(t, f.Release(t.Context(), "mailer", needs.Component(), sample.Channel("regular", "1.1.0")))
	untilNamed(t, f, berlin, "mailer", "recreate")
	renamed := sample.Scaler("1.7.0")
	renamed.Module = "resizer"
	must(t, renamed.Push(t.Context(), f.Modules))
	template = renamed.Template()
	template.Annotations = map[string]string{v1beta2.AnnotationRenamedFrom: "scaler"}
	must(t, f.Control.Create(t.Context(), template))
	must(t, f.Release(t.Context(), "resizer", renamed.Component(), sample.Channel("regular", "1.7.0")))
	until(t, time.Minute, "the runtime is offered the renamed module", func() (bool, string) {
		err := berlin.API.Get(t.Context(), inKyma("resizer"), &v1beta2.ModuleReleaseMeta{})
		return err == nil, fmt.Sprint(err)
	})
	must(t, berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		for i := range spec.Modules {
			if spec.Modules[i].Name == "scaler" {
				spec.Modules[i].Name = "resizer"
			}
		}
	}))
	untilNamed(t, f, berlin, "resizer", "renamed-modules")

	// The agent has followed that bundle, and all is as it was.
	until(t, time.Minute, "the agent follows the bundle that leaves both out", func() (bool, string) {
		record, err := berlin.Record(t.Context())
		must(t, err)
		r := record.Status.Runtime
		return r.Observed.Digest == r.Published.Digest, fmt.Sprintf("%+v, %+v", r.Published, r.Observed)
	})
	var installed v1beta2.ManifestList
	must(t, berlin.API.List(t.Context(), &installed))
	is := map[string]string{}
	for _, m := range installed.Items {
		is[m.Name] = fmt.Sprint(m.Spec.Version, " ", m.Status.State, " ", m.DeletionTimestamp.IsZero())
	}
	if want := map[string]string{"scaler": "1.7.0 Ready true", "mailer": "1.0.0 Ready true"}; !maps.Equal(is, want) {
		t.Errorf("the runtime has %v, want %v", is, want)
	}

	// The agent is upgraded, and gets both.
	f.Use(fleet.Binaries{Agent: today.Agent})
	berlin.Agent().Stop()
	must(t, berlin.StartAgent())
	must(t, berlin.UntilState(t.Context(), "mailer", "1.1.0", v1beta2.StateReady))
	must(t, berlin.UntilState(t.Context(), "resizer", "1.7.0", v1beta2.StateReady))
	must(t, berlin.UntilGone(t.Context(), "scaler"))
	untilUnderstood(t, berlin, metav1.ConditionTrue, v1beta2.ReasonUnderstood)
	statement, err := inForce(t, berlin)
	must(t, err)
	if want := []bundle.Feature{bundle.FeatureRecreate, bundle.FeatureRenamedModules}; !slices.Equal(statement.Predicate.Critical, want) {
		t.Errorf("the bundle in force names %v as critical, want %v", statement.Predicate.Critical, want)
	}
	now := had.DeepCopy()
	must(t, berlin.API.Get(t.Context(), client.ObjectKeyFromObject(had), now))
	if now.GetUID() != had.GetUID() {
		t.Error("an object of the renamed module was deleted and created again")
	}
}
