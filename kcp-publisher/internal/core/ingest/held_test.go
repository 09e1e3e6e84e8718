package ingest

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// held returns the status after a report that arrives while a Git commit is partially applied.
func (s *scene) held(change func(*Facts)) v1beta2.KymaStatus {
	s.before = s.status()
	s.facts.Problems, s.facts.PublishError = nil, nil // nothing is resolved
	report := *s.facts.Report
	report.Sequence++
	report.Modules = append([]bundle.ReportedModule{}, report.Modules...)
	s.facts.Report = &report
	change(&s.facts)
	return HeldStatus(s.before, s.facts, "commit 3f0c is partially applied", s.now.Add(time.Minute))
}

func TestReportedStatesAreShownDuringACommitHold(t *testing.T) {
	after := healthy().held(func(f *Facts) {
		reported("keda", v1beta2.StateError, "quota exceeded")(f)
		f.Report.Modules[0].Reason = reason.Modules[0]
	})
	if m := after.Modules[0]; m.State != v1beta2.StateError || m.Message != "quota exceeded" || m.Template == nil {
		t.Errorf("got module %+v, want the reported error", m)
	}
	for kind, want := range map[string]string{v1beta2.ConditionModules: v1beta2.ReasonNotReady,
		v1beta2.ConditionReady: v1beta2.ReasonNotReady, v1beta2.ConditionPublishing: v1beta2.ReasonCommitHeld} {
		if c := meta.FindStatusCondition(after.Conditions, kind); c == nil || c.Reason != want {
			t.Errorf("got condition %s %+v, want reason %s", kind, c, want)
		}
	}
	if after.State != v1beta2.StateError || after.ReadyModules != "1/2" {
		t.Errorf("got state %s with %s ready modules, want Error and 1/2", after.State, after.ReadyModules)
	}
	why := after.Runtime.Reasons
	if why == nil || len(why.Modules) != 1 || why.Modules[0].Runtime != v1beta2.Reason(reason.Modules[0]) {
		t.Errorf("got reasons %+v, want the reported reason", why)
	}
}

func TestModuleRecoversDuringACommitHold(t *testing.T) {
	s := healthy().with(reported("keda", v1beta2.StateError, "quota exceeded"))
	after := s.held(reported("keda", v1beta2.StateReady, ""))
	if after.State != v1beta2.StateReady || after.Runtime.Reasons != nil ||
		!meta.IsStatusConditionTrue(after.Conditions, v1beta2.ConditionReady) {
		t.Errorf("got state %s, reasons %+v, conditions %+v, want Ready", after.State, after.Runtime.Reasons,
			after.Conditions)
	}
}

func TestControlPlaneProblemsRemainDuringACommitHold(t *testing.T) {
	problem := bundle.Problem{Module: "keda", State: v1beta2.StateError, Message: "no version",
		Reason: reason.Problems[0]}
	s := healthy().with(func(f *Facts) { f.Problems = []bundle.Problem{problem} })
	after := s.held(reported("mail", v1beta2.StateWarning, "one pod is missing"))
	if m := after.Modules[0]; m.State != v1beta2.StateError {
		t.Errorf("got module %+v, want the problem", m)
	}
	if m := after.Modules[1]; m.State != v1beta2.StateWarning {
		t.Errorf("got module %+v, want the reported warning", m)
	}
	if after.State != v1beta2.StateError {
		t.Errorf("got state %s, want Error", after.State)
	}
}

// A report about another bundle arrives after a restore of the runtime or of the control plane.
func TestReadyRequiresReportAboutTheBundle(t *testing.T) {
	for name, observed := range map[string]bundle.Observed{
		"earlier bundle": {Epoch: 1, Sequence: 6, Digest: earlier},
		"newer bundle":   {Epoch: 1, Sequence: 9, Digest: "sha256:unknown"},
	} {
		after := healthy().held(func(f *Facts) {
			f.Report.Observed = &observed
			reported("keda", v1beta2.StateError, "quota exceeded")(f)
		})
		m := after.Modules[0]
		if m.State != v1beta2.StateProcessing || m.Message != "waiting for the runtime to report bundle 7" ||
			after.State != v1beta2.StateProcessing {
			t.Errorf("%s: got module %+v in state %s, want Processing until a report about the bundle", name, m, after.State)
		}
	}
	s := healthy().with(reported("keda", v1beta2.StateError, "quota exceeded"))
	after := s.held(func(f *Facts) {
		f.Report.Observed = &bundle.Observed{Epoch: 1, Sequence: 6, Digest: earlier}
		reported("keda", v1beta2.StateReady, "")(f)
	})
	if m := after.Modules[0]; m.State != v1beta2.StateError || m.Message != "quota exceeded" {
		t.Errorf("got module %+v, want its earlier error", m)
	}
}

func TestNonModuleProblemsRemainDuringACommitHold(t *testing.T) {
	recovered := reported("keda", v1beta2.StateReady, "")
	for name, c := range map[string]struct {
		before func(*Facts)
		want   v1beta2.State
	}{
		"Secrets that cannot be encrypted": {func(f *Facts) {
			reported("keda", v1beta2.StateWarning, "one pod is missing")(f)
			f.SecretsError = errors.New("no recipient")
		}, v1beta2.StateWarning},
		"bundle that cannot be published": {func(f *Facts) {
			reported("keda", v1beta2.StateError, "quota exceeded")(f)
			f.PublishError = errors.New("the registry is full")
		}, v1beta2.StateError},
		"module that is being removed": {func(f *Facts) {
			reported("keda", v1beta2.StateWarning, "one pod is missing")(f)
			f.Published.State.Manifests = f.Published.State.Manifests[:1]
			f.Published.Predicate.Removals = []string{"mail"}
			f.Report.Modules[1].State = v1beta2.StateDeleting
		}, v1beta2.StateProcessing},
	} {
		t.Run(name, func(t *testing.T) {
			after := healthy().with(c.before).held(recovered)
			if after.Modules[0].State != v1beta2.StateReady || after.State != c.want {
				t.Errorf("got module state %s and state %s, want Ready and %s", after.Modules[0].State, after.State, c.want)
			}
			if meta.IsStatusConditionTrue(after.Conditions, v1beta2.ConditionReady) {
				t.Error("got condition Ready, want False")
			}
		})
	}
}

// unpublished returns the status after a report that arrives while the publisher cannot publish bundles, for example
// because two agents use the runtime's key.
func (s *scene) unpublished(change func(*Facts)) v1beta2.KymaStatus {
	s.before = s.status()
	report := *s.facts.Report
	report.Sequence++
	report.Modules = append([]bundle.ReportedModule{}, report.Modules...)
	s.facts.Kept, s.facts.Published, s.facts.Problems, s.facts.Report = s.facts.Published, nil, nil, &report
	s.facts.PublishError = errors.New("two agents report with the key of this runtime")
	change(&s.facts)
	return NextStatus(s.before, s.facts, s.now.Add(time.Minute))
}

func TestReportedStatesAreShownIfPublishingFails(t *testing.T) {
	after := healthy().unpublished(reported("keda", v1beta2.StateError, "quota exceeded"))
	if m := after.Modules[0]; m.State != v1beta2.StateError || m.Message != "quota exceeded" || m.Template == nil {
		t.Errorf("got module %+v, want the reported error", m)
	}
	if after.State != v1beta2.StateError || after.ReadyModules != "1/2" {
		t.Errorf("got state %s with %s ready modules, want Error and 1/2", after.State, after.ReadyModules)
	}
	if c := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); c.Reason != v1beta2.ReasonPublishFailed {
		t.Errorf("got condition Ready %+v, want reason %s", c, v1beta2.ReasonPublishFailed)
	}
	failed := healthy().with(reported("keda", v1beta2.StateError, "quota exceeded"))
	if m := failed.unpublished(reported("keda", v1beta2.StateReady, "")).Modules[0]; m.State != v1beta2.StateReady {
		t.Errorf("got module %+v, want the reported recovery", m)
	}
}

func TestOnlyWorseReportedStatesAreShownIfTheBundleIsUnknown(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"no bundle": func(f *Facts) { f.Kept = nil },
		"another bundle": func(f *Facts) {
			kept := *f.Kept
			kept.Digest = "sha256:other"
			f.Kept = &kept
		},
	} {
		for _, c := range []struct{ before, reported, want v1beta2.State }{
			{v1beta2.StateReady, v1beta2.StateProcessing, v1beta2.StateProcessing},
			{v1beta2.StateReady, v1beta2.StateError, v1beta2.StateError},
			{v1beta2.StateWarning, v1beta2.StateError, v1beta2.StateError},
			{v1beta2.StateError, v1beta2.StateReady, v1beta2.StateError},
		} {
			s := healthy().with(reported("keda", c.before, "earlier"))
			after := s.unpublished(func(f *Facts) {
				reported("keda", c.reported, "later")(f)
				change(f)
			})
			message := map[bool]string{true: "later", false: "earlier"}[c.want == c.reported]
			if m := after.Modules[0]; m.State != c.want || m.Message != message || m.Template == nil {
				t.Errorf("%s: state %s and report %s: got module %+v, want %s", name, c.before, c.reported, m, c.want)
			}
		}
	}
}

func TestWorseReportedStatesAreShownIfABundleCannotBeRenewed(t *testing.T) {
	after := healthy().held(func(f *Facts) {
		reported("keda", v1beta2.StateError, "quota exceeded")(f)
		f.Published = nil
	})
	if m := after.Modules[0]; m.State != v1beta2.StateError || after.State != v1beta2.StateError ||
		after.ReadyModules != "1/2" {
		t.Errorf("got module %+v in state %s with %s ready modules, want Error and 1/2", m, after.State,
			after.ReadyModules)
	}
}

// A rollout counts a runtime as failed if its status does not contain the result of the selected version.
func TestResultsOfRolloutsAreRecordedDuringACommitHold(t *testing.T) {
	published := noon.Add(-4 * time.Hour)
	for name, c := range map[string]struct {
		waits  bool
		state  v1beta2.State
		ready  bool
		starts time.Time
	}{
		"module becomes ready":       {false, v1beta2.StateReady, true, published},
		"maintenance window opens":   {true, v1beta2.StateProcessing, false, noon.Add(time.Minute)},
		"module is still processing": {false, v1beta2.StateProcessing, false, published},
	} {
		s := healthy().with(func(f *Facts) {
			reported("keda", v1beta2.StateProcessing, "")(f)
			if c.waits {
				f.Report.Modules[0].Maintenance, f.Report.Modules[0].Version = true, "0.9.0"
			}
			f.Published.Predicate.KymaGeneration = 4
			f.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			f.SelectedVersions = map[string]v1beta2.GivenVersion{
				"keda": {Rollout: "keda-regular-1", Time: metav1.NewTime(published)},
			}
		})
		after := s.held(func(f *Facts) {
			reported("keda", c.state, "")(f)
			f.Report.Modules[0].Maintenance, f.Report.Modules[0].Version = false, "1.0.0"
			f.SelectedVersions = nil
		})
		given := after.Runtime.Published.Given["keda"]
		if given.Ready != c.ready || given.State != c.state || !given.Began().Equal(c.starts) {
			t.Errorf("%s: got %+v, want ready %v in state %s since %s", name, given, c.ready, c.state, c.starts)
		}
	}
}

func TestConditionContainsTheReasonWithoutARenewal(t *testing.T) {
	after := healthy().held(func(f *Facts) { f.RenewError = errors.New("the release key was revoked") })
	c := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionPublishing)
	const want = "commit 3f0c is partially applied: the bundle is not renewed: the release key was revoked"
	if c == nil || c.Message != want || c.Reason != v1beta2.ReasonCommitHeld {
		t.Errorf("got condition %+v, want message %q", c, want)
	}
}
