package scenario

import (
	"fmt"
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

// carryWithRetry carries the runtime's newest bundle and report as files between two program versions. If the publisher
// publishes a newer bundle during the steps, carryWithRetry tries again.
func carryWithRetry(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, publisher, agent fleet.Binaries) {
	t.Helper()
	until(t, time.Minute, "bundle and report of "+r.ID+" are imported from files", func() (bool, string) {
		output := carry(t, f, r, publisher, agent)
		return output == "", output
	})
}

// carry performs carryWithRetry's steps once. It describes the first failure, or returns "". It imports the report into
// a separate repository, because the agent may have pushed a newer report.
func carry(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, publisher, agent fleet.Binaries) string {
	t.Helper()
	dir := t.TempDir()
	file, report, target := filepath.Join(dir, "file.tar.zst"), filepath.Join(dir, "report.json"),
		"oci-layout:"+filepath.Join(dir, "target")
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

// untilFeatures waits until a Kyma's Features condition has this status and reason.
func untilFeatures(t *testing.T, record func() (*v1beta2.Kyma, error), status metav1.ConditionStatus, reason string) {
	t.Helper()
	until(t, 90*time.Second, "condition Features is "+reason, func() (bool, string) {
		kyma, err := record()
		must(t, err)
		c := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionFeatures)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprint(kyma.Status.Conditions)
	})
}

// wantAllFeatures checks that the publisher omitted no features from the runtime's bundle.
func wantAllFeatures(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	if c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionFeatures); c != nil {
		t.Errorf("%s: unexpected condition Features: %+v", r.ID, c)
	}
	if len(record.Status.Runtime.Observed.Features) == 0 {
		t.Errorf("the report of %s does not list features", r.ID)
	}
}

// untilLabeled waits until kyma-system has the sidecar label.
func untilLabeled(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, 60*time.Second, "kyma-system has istio-injection=enabled", func() (bool, string) {
		var namespace corev1.Namespace
		must(t, r.API.Get(t.Context(), client.ObjectKey{Name: v1beta2.RuntimeNamespace}, &namespace))
		return namespace.Labels["istio-injection"] == "enabled", fmt.Sprint(namespace.Labels)
	})
}

func TestReleasedVersionsWorkWithTheCurrentVersion(t *testing.T) {
	suite.Long(t)
	today, err := fleet.Build()
	must(t, err)
	for _, past := range releases(t) {
		t.Run(past.version, func(t *testing.T) {
			s := &skew{t: t, released: programsAt(t, past.commit), today: today}
			s.f = newFleet(t, fleet.Options{PublisherFlags: []string{sidecars, "--set=keys-poll-interval=1s"}})
			s.checkAgentUpgrades()
			s.checkPublisherDowngrades()
		})
	}
}

// sidecars is a publisher flag that adds a setting to every bundle.
const sidecars = "--set=runtime-namespace-label=istio-injection=enabled"

// skew is a fleet with programs from two versions. The runtime "berlin" starts with an agent from an earlier release,
// and "paris" with the current agent.
type skew struct {
	t               *testing.T
	f               *fleet.Fleet
	released, today fleet.Binaries
	berlin, paris   *fleet.Runtime
}

// checkAgentUpgrades runs the current publisher with agents from both versions, and then upgrades the older agent.
func (s *skew) checkAgentUpgrades() {
	t, f := s.t, s.f
	t.Helper()
	f.Use(fleet.Binaries{Agent: s.released.Agent})
	s.berlin = runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	f.Use(fleet.Binaries{Agent: s.today.Agent})
	s.paris = runtimeWith(t, f, "paris", map[string]string{"scaler": "1.7.0"})
	untilLabeled(t, s.berlin)
	untilLabeled(t, s.paris)
	waves := []v1alpha1.Wave{{Name: "first", Count: new(int32(1))}, {Name: "others", Percent: new(int32(100))}}
	must(t, f.CreatePolicy(t.Context(), "scaler", v1alpha1.Course{Waves: waves}))
	promote(t, f, "1.8.0")
	for _, r := range []*fleet.Runtime{s.berlin, s.paris} {
		must(t, r.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
	}
	must(t, f.UntilRollout(t.Context(), firstRollout, "the rollout succeeds with agents of two versions",
		rolledOut(v1alpha1.RolloutSucceeded)))
	wantAllFeatures(t, s.berlin)
	wantAllFeatures(t, s.paris)

	t.Log("both agents follow a root of trust that the current program rotated")
	runProgram(t, 0, s.today.Publisher, "keys", "rotate", "publisher", "--keys", f.Keys())
	untilRoot(t, s.berlin, 2)
	untilRoot(t, s.paris, 2)
	carryWithRetry(t, f, s.berlin, s.today, s.released)

	s.berlin.Agent().Stop()
	must(t, s.berlin.StartAgent())
	must(t, s.berlin.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
}

// checkPublisherDowngrades runs the earlier release's publisher with current agents, and then downgrades one agent.
func (s *skew) checkPublisherDowngrades() {
	t, f := s.t, s.f
	t.Helper()
	f.Use(fleet.Binaries{Publisher: s.released.Publisher})
	must(t, f.RestartPublisher(sidecars))
	must(t, s.berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	must(t, s.berlin.UntilState(t.Context(), "mailer", "1.0.0", v1beta2.StateReady))
	carryWithRetry(t, f, s.berlin, s.released, s.today)

	f.Use(fleet.Binaries{Agent: s.released.Agent})
	s.berlin.Agent().Stop()
	must(t, s.berlin.StartAgent())
	must(t, s.berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:1] }))
	must(t, s.berlin.UntilGone(t.Context(), "mailer"))
	f.Use(fleet.Binaries{Publisher: s.today.Publisher})
	must(t, f.RestartPublisher(sidecars))
	must(t, s.berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	must(t, s.berlin.UntilState(t.Context(), "mailer", "1.0.0", v1beta2.StateReady))
	wantAllFeatures(t, s.berlin)
}

// The simulated agent supports fewer features than this version.
func TestModuleWaitsForAnAgentWithRequiredFeatures(t *testing.T) {
	f := newFleet(t, fleet.Options{PublisherFlags: []string{sidecars}})
	berlin, err := f.Simulate(t.Context(), fleet.NewKyma("berlin", "regular", "mailer"))
	must(t, err)
	berlin.SetFeatures(bundle.FeatureImagePullSecret, bundle.FeatureTakeover)
	record := func() (*v1beta2.Kyma, error) { return berlin.Record(t.Context()) }
	untilSetting := func(want string) {
		t.Helper()
		until(t, time.Minute, "the bundle has istio-injection="+want, func() (bool, string) {
			labels := berlin.Settings().NamespaceLabels
			return labels["istio-injection"] == want, fmt.Sprint(labels)
		})
	}
	untilFeatures(t, record, metav1.ConditionFalse, v1beta2.ReasonAgentOutdated)
	untilSetting("")

	needs := sample.Mailer("1.1.0")
	must(t, needs.Push(t.Context(), f.Modules))
	template := needs.Template()
	template.Annotations = map[string]string{v1beta2.AnnotationRequiresFeatures: "recreate"}
	must(t, f.Control.Create(t.Context(), template))
	must(t, f.Release(t.Context(), "mailer", needs.Component(), sample.Channel("regular", "1.1.0")))
	const message = "the agent is too old for recreate"
	until(t, 90*time.Second, "module mailer waits for a newer agent", func() (bool, string) {
		kyma, err := record()
		must(t, err)
		return strings.Contains(moduleOf(kyma, "mailer").Message, message), fmt.Sprintf("%+v", kyma.Status.Modules)
	})
	output, err := f.Why(t.Context(), berlin.ID)
	must(t, err)
	if !strings.Contains(output, message) {
		t.Errorf("unexpected output of why:\n%s", output)
	}
	if version := berlin.Has("mailer"); version != "1.0.0" {
		t.Errorf("the runtime has mailer %q, want 1.0.0", version)
	}

	berlin.SetFeatures(bundle.AllFeatures()...)
	untilFeatures(t, record, metav1.ConditionTrue, v1beta2.ReasonAgentSupported)
	until(t, 90*time.Second, "the runtime has mailer 1.1.0", func() (bool, string) {
		return berlin.Has("mailer") == "1.1.0", fmt.Sprint(berlin.All())
	})
	untilSetting("enabled")
}
