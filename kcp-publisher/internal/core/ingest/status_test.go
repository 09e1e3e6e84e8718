package ingest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

var (
	noon    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	newest  = digest.FromString("newest")
	earlier = digest.FromString("earlier")
)

const allowedSilence = 30 * time.Minute

// scene is a Kyma with the facts about its runtime. At first, the runtime has applied bundle 7 with modules keda and
// mail, and both modules are ready.
type scene struct {
	before v1beta2.KymaStatus
	facts  Facts
	now    time.Time
}

func healthy() *scene {
	s := &scene{now: noon}
	s.facts = Facts{
		Generation: 3, SilenceTimeout: allowedSilence,
		Published: &plan.PublishedBundle{
			Predicate: bundle.Predicate{Sequence: 7, IssuedAt: noon.Add(-time.Hour)}, Digest: newest,
			State: bundle.DesiredState{
				Kyma:      bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: "regular"}},
				Manifests: []bundle.Manifest{module("keda"), module("mail")},
			},
			Versions: map[string]string{"keda": "1.0.0", "mail": "1.0.0"},
		},
		Report: &bundle.AcceptedReport{Report: bundle.Report{
			Sequence: 5, Time: noon.Add(-time.Minute),
			Observed: &bundle.Observed{Epoch: 1, Sequence: 7, Digest: newest},
			Modules:  []bundle.ReportedModule{ready("keda"), ready("mail")},
		}},
	}
	return s.remember()
}

func module(name string) bundle.Manifest {
	return bundle.Manifest{
		Name: name, Module: name, Channel: "regular", Version: "1.0.0", Component: "kyma-pull.dev/module/" + name,
		Template: name + "-1.0.0",
	}
}

func ready(name string) bundle.ReportedModule {
	return bundle.ReportedModule{Name: name, Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady}
}

func (s *scene) remember() *scene {
	s.before.Runtime = nil
	if s.facts.Report != nil {
		RecordReport(&s.before, *s.facts.Report, "key", "thumbprint", s.facts.Report.Time)
	}
	return s
}

func (s *scene) with(change func(*Facts)) *scene {
	change(&s.facts)
	return s.remember()
}

func (s *scene) later(d time.Duration) *scene {
	s.now = s.now.Add(d)
	return s
}

func (s *scene) status() v1beta2.KymaStatus { return NextStatus(s.before, s.facts, s.now) }

func reported(name string, state v1beta2.State, message string) func(*Facts) {
	return func(f *Facts) {
		for i := range f.Report.Modules {
			if f.Report.Modules[i].Name == name {
				f.Report.Modules[i].State, f.Report.Modules[i].Message = state, message
			}
		}
	}
}

func waitingForWindow(f *Facts) {
	f.Report.Modules[1].Version, f.Report.Modules[1].Maintenance = "0.9.0", true
}

func nothingReported(f *Facts) { f.Report = nil }

func reportedEarlierBundle(f *Facts) {
	f.Report.Observed.Digest, f.Report.Observed.Sequence = earlier, 6
}

func problem(module string, state v1beta2.State, message string) func(*Facts) {
	return func(f *Facts) {
		f.Problems = append(f.Problems, bundle.Problem{
			Module: module, Channel: "regular", State: state, Message: message,
		})
	}
}

// outline returns the main parts of a status as text.
func outline(status v1beta2.KymaStatus) string {
	lines := []string{string(status.State)}
	for _, c := range status.Conditions {
		if c.Status != metav1.ConditionTrue {
			lines = append(lines, "not "+c.Type+" ("+c.Reason+"): "+c.Message)
		}
	}
	for _, m := range status.Modules {
		line := m.Name + "@" + m.Version + " " + string(m.State)
		if m.Maintenance {
			line += " in maintenance"
		}
		if m.Message != "" {
			line += ": " + m.Message
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

const waiting = "waiting for the runtime to report bundle 7"

func TestStatusMatchesBundleAndReport(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		want  []string
	}{
		"runtime has applied the latest bundle": {
			healthy(), []string{"Ready", "keda@1.0.0 Ready", "mail@1.0.0 Ready"},
		},
		"agent rolled back its image": {
			healthy().with(func(f *Facts) { f.Report.AgentProblem = "the agent rolled back its image b" }),
			[]string{"Warning",
				"not Agent (RolledBack): the agent rolled back its image b",
				"not Ready (NotReady): the agent rolled back its image b",
				"keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"report about an earlier bundle": {
			healthy().with(reportedEarlierBundle), []string{"Processing",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): " + waiting,
				"keda@1.0.0 Processing: " + waiting, "mail@1.0.0 Processing: " + waiting}},
		"module in state Error with an earlier bundle": {
			healthy().with(reportedEarlierBundle).with(reported("keda", v1beta2.StateError, "old trouble")),
			[]string{"Processing",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): " + waiting,
				"keda@1.0.0 Processing: " + waiting, "mail@1.0.0 Processing: " + waiting}},
		"runtime never reported": {
			healthy().with(nothingReported), []string{"Processing",
				"not Reporting (NeverReported): the runtime has never reported",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): the runtime has never reported",
				"keda@ Processing: " + waiting, "mail@ Processing: " + waiting}},
		"no bundle is published": {
			healthy().with(nothingReported).with(func(f *Facts) { f.Published = nil }), []string{"Processing",
				"not Reporting (NeverReported): the runtime has never reported",
				"not Accepted (Pending): no bundle is published yet",
				"not Modules (NotReady): no bundle is published yet",
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): the runtime has never reported"}},
		"last report within the allowed silence": {
			healthy().later(allowedSilence - time.Minute), []string{"Ready", "keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"last report older than the allowed silence": {
			healthy().later(allowedSilence), []string{"Warning",
				"not Reporting (Silent): the last report is from 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
				"not Ready (NotReady): the last report is from 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
				"keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"refused report": {
			healthy().with(func(f *Facts) {
				f.ReportRefused = &refusal.Error{Reason: refusal.ForeignKey, Detail: "signed with another key"}
			}), []string{"Warning",
				"not Reporting (ReportRefused): the latest report was refused: refused (ForeignKey): signed with " +
					"another key",
				"not Ready (NotReady): the latest report was refused: refused (ForeignKey): signed with another key",
				"keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"refused first report": {
			healthy().with(nothingReported).with(func(f *Facts) {
				f.ReportRefused = &refusal.Error{Reason: refusal.NotEnrolled, Detail: "no token"}
			}), []string{"Processing",
				"not Reporting (ReportRefused): the latest report was refused: refused (NotEnrolled): no token",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): the latest report was refused: refused (NotEnrolled): no token",
				"keda@ Processing: " + waiting, "mail@ Processing: " + waiting}},
		"refused bundle": {
			healthy().with(reportedEarlierBundle).with(func(f *Facts) {
				f.Report.Refused = []bundle.RefusedBundle{
					{Digest: "sha256:old", Reason: refusal.Expired}, {
						Digest: "sha256:new", Reason: refusal.Rollback, Detail: "6 is older than 7",
					},
				}
			}), []string{"Warning",
				"not Accepted (BundleRefused): the runtime refused bundle sha256:new (Rollback): 6 is older than 7",
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): the runtime refused bundle sha256:new (Rollback): 6 is older than 7",
				"keda@1.0.0 Processing: " + waiting, "mail@1.0.0 Processing: " + waiting}},
		"expired bundle": {
			healthy().with(func(f *Facts) { f.Report.Observed.Expired = true }), []string{"Warning",
				"not Accepted (Expired): the bundle in use has expired",
				"not Ready (NotReady): the bundle in use has expired", "keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"publish error": {
			healthy().with(func(f *Facts) { f.PublishError = errors.New("push bundle: connection refused") }),
			[]string{"Error",
				"not Ready (PublishFailed): push bundle: connection refused", "keda@1.0.0 Ready", "mail@1.0.0 Ready"}},
		"module in state Error": {
			healthy().with(reported("mail", v1beta2.StateError, "image cannot be pulled")), []string{"Error",
				"not Modules (NotReady): module mail is Error: image cannot be pulled",
				"not Ready (NotReady): module mail is Error: image cannot be pulled",
				"keda@1.0.0 Ready", "mail@1.0.0 Error: image cannot be pulled"}},
		"module in state Warning without a message": {
			healthy().with(reported("mail", v1beta2.StateWarning, "")), []string{"Warning",
				"not Modules (NotReady): module mail is Warning: see the runtime's Manifest",
				"not Ready (NotReady): module mail is Warning: see the runtime's Manifest",
				"keda@1.0.0 Ready", "mail@1.0.0 Warning"}},
		"Error takes precedence over Warning": {
			healthy().with(reported("keda", v1beta2.StateWarning, "w")).with(reported("mail", v1beta2.StateError, "e")),
			[]string{"Error",
				"not Modules (NotReady): module keda is Warning: w", "not Ready (NotReady): module keda is Warning: w",
				"keda@1.0.0 Warning: w", "mail@1.0.0 Error: e"}},
		"Warning takes precedence over Processing": {
			healthy().with(reported("keda", v1beta2.StateProcessing, "p")).
				with(reported("mail", v1beta2.StateWarning, "w")), []string{"Warning",
				"not Modules (NotReady): module keda is Processing: p",
				"not Ready (NotReady): module keda is Processing: p",
				"keda@1.0.0 Processing: p", "mail@1.0.0 Warning: w"}},
		"Kyma is being deleted": {
			healthy().with(reported("mail", v1beta2.StateError, "e")).with(func(f *Facts) { f.IsDeleting = true }),
			[]string{"Deleting",
				"not Modules (NotReady): module mail is Error: e", "not Ready (NotReady): module mail is Error: e",
				"keda@1.0.0 Ready", "mail@1.0.0 Error: e"}},
		"module is not installed yet": {
			healthy().with(func(f *Facts) { f.Report.Modules = f.Report.Modules[:1] }), []string{"Processing",
				"not Modules (NotReady): module mail is Processing: the runtime does not have the module yet",
				"not Ready (NotReady): module mail is Processing: the runtime does not have the module yet",
				"keda@1.0.0 Ready", "mail@ Processing: the runtime does not have the module yet"}},
		"modules returned to lifecycle-manager": {
			healthy().with(func(f *Facts) {
				f.Published.State.Takeover = bundle.TakeoverRelease
				f.Report.Modules = []bundle.ReportedModule{
					{Name: "keda", Version: "0.9.0", State: v1beta2.StateUnmanaged},
				}
			}), []string{"Ready", "keda@0.9.0 Unmanaged: the runtime gave the module back to lifecycle-manager",
				"mail@ Unmanaged: the runtime gave the module back to lifecycle-manager"}},
		"previous version of a module is installed": {
			healthy().with(func(f *Facts) { f.Report.Modules[1].Version = "0.9.0" }), []string{"Processing",
				"not Modules (NotReady): module mail is Processing: version 0.9.0 is installed, waiting for version " +
					"1.0.0",
				"not Ready (NotReady): module mail is Processing: version 0.9.0 is installed, waiting for version " +
					"1.0.0",
				"keda@1.0.0 Ready", "mail@0.9.0 Processing: version 0.9.0 is installed, waiting for version 1.0.0"}},
		"upgrade of a module failed": {
			healthy().with(reported("mail", v1beta2.StateError, "no such image")).
				with(func(f *Facts) { f.Report.Modules[1].Version = "0.9.0" }), []string{"Error",
				"not Modules (NotReady): module mail is Error: no such image",
				"not Ready (NotReady): module mail is Error: no such image",
				"keda@1.0.0 Ready", "mail@0.9.0 Error: no such image"}},
		"upgrade waits for a maintenance window": {
			healthy().with(reported("mail", v1beta2.StateReady, "waits")).with(waitingForWindow), []string{"Ready",
				"keda@1.0.0 Ready", "mail@0.9.0 Ready in maintenance: waits"}},
		"module in state Error while its upgrade waits for a maintenance window": {
			healthy().with(reported("mail", v1beta2.StateError, "crashes; waits")).with(waitingForWindow),
			[]string{"Error",
				"not Modules (NotReady): module mail is Error: crashes; waits",
				"not Ready (NotReady): module mail is Error: crashes; waits",
				"keda@1.0.0 Ready", "mail@0.9.0 Error in maintenance: crashes; waits"}},
		"upgrade with an earlier bundle waits for a maintenance window": {
			healthy().with(reportedEarlierBundle).with(waitingForWindow), []string{"Processing",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): " + waiting,
				"keda@1.0.0 Processing: " + waiting, "mail@0.9.0 Processing: " + waiting}},
		"unmanaged module in state Error": {
			healthy().with(reported("mail", v1beta2.StateError, "e")).with(func(f *Facts) {
				f.Published.State.Manifests[1].Unmanaged = true
			}),
			[]string{"Ready", "keda@1.0.0 Ready", "mail@1.0.0 Unmanaged"}},
		"module becomes unmanaged with the latest bundle": {
			healthy().with(reportedEarlierBundle).with(func(f *Facts) {
				f.Published.State.Manifests = f.Published.State.Manifests[1:]
				f.Published.State.Manifests[0].Unmanaged = true
			}), []string{"Processing",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module mail is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): " + waiting, "mail@1.0.0 Processing: " + waiting}},
		"mandatory module is not listed": {
			healthy().with(func(f *Facts) {
				f.Published.State.Manifests[1].Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
			}), []string{"Ready", "keda@1.0.0 Ready"}},
		"unresolved module": {
			healthy().with(problem("nope", v1beta2.StateWarning, "module nope is unknown")), []string{"Warning",
				"not Modules (NotReady): module nope is Warning: module nope is unknown",
				"not Ready (NotReady): module nope is Warning: module nope is unknown",
				"keda@1.0.0 Ready", "mail@1.0.0 Ready", "nope@ Warning: module nope is unknown"}},
		"module stays at its last version": {
			healthy().with(problem("mail", v1beta2.StateError, "module mail: not found")), []string{"Error",
				"not Modules (NotReady): module mail is Error: module mail: not found",
				"not Ready (NotReady): module mail is Error: module mail: not found",
				"keda@1.0.0 Ready", "mail@1.0.0 Error: module mail: not found"}},
		"module in state Error stays at its last version": {
			healthy().with(reported("mail", v1beta2.StateError, "crashes")).
				with(problem("mail", v1beta2.StateWarning, "module mail: stays")), []string{"Error",
				"not Modules (NotReady): module mail is Error: crashes; module mail: stays",
				"not Ready (NotReady): module mail is Error: crashes; module mail: stays",
				"keda@1.0.0 Ready", "mail@1.0.0 Error: crashes; module mail: stays"}},
		"removed module is still installed": {
			removing(healthy()), []string{"Processing",
				"not Modules (NotReady): module mail is Deleting: see the runtime's Manifest",
				"not Ready (NotReady): module mail is Deleting: see the runtime's Manifest",
				"keda@1.0.0 Ready", "mail@1.0.0 Deleting"}},
		"blocked removal": {
			removing(healthy().with(reported("mail", v1beta2.StateWarning, "2 CRs are left"))), []string{"Warning",
				"not Modules (NotReady): module mail is Warning: 2 CRs are left",
				"not Ready (NotReady): module mail is Warning: 2 CRs are left",
				"keda@1.0.0 Ready", "mail@1.0.0 Warning: 2 CRs are left"}},
		"removed module was in state Error with an earlier bundle": {
			removing(healthy().with(reportedEarlierBundle).with(reported("mail", v1beta2.StateError, "old trouble"))),
			[]string{"Processing",
				"not Accepted (Pending): " + waiting,
				"not Modules (NotReady): module keda is Processing: " + waiting,
				"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
				"not Ready (NotReady): " + waiting,
				"keda@1.0.0 Processing: " + waiting, "mail@1.0.0 Deleting: " + waiting}},
		"completed removal": {
			removing(healthy()).with(func(f *Facts) { f.Report.Modules = f.Report.Modules[:1] }),
			[]string{"Ready", "keda@1.0.0 Ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := outline(c.scene.status()), strings.Join(c.want, "\n"); got != want {
				t.Errorf("got\n%s\n\nwant\n%s", got, want)
			}
		})
	}
}

func removing(s *scene) *scene {
	return s.with(func(f *Facts) {
		f.Published.State.Manifests = f.Published.State.Manifests[:1]
		f.Published.Predicate.Removals = []string{"mail"}
	})
}

func TestModulesStayInStatusWithoutBundleAndReport(t *testing.T) {
	s := healthy().with(nothingReported).with(func(f *Facts) { f.Published = nil })
	s.before.Modules = []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady}}
	after := s.status()
	if len(after.Modules) != 1 || after.Modules[0].Name != "keda" || after.State == v1beta2.StateReady {
		t.Errorf("got %s, want module keda in a state other than Ready", outline(after))
	}
}

func TestStatusContainsBundleAndActiveChannel(t *testing.T) {
	s := healthy()
	after := s.status()
	p := after.Runtime.Published
	if p.Sequence != 7 || p.Digest != newest.String() || !p.Time.Time.Equal(noon.Add(-time.Hour)) ||
		p.Versions["keda"] != "1.0.0" || len(p.Versions) != 2 {
		t.Errorf("got published bundle %+v, want bundle 7 with versions of two modules", p)
	}
	if after.ActiveChannel != "regular" {
		t.Errorf("got active channel %q, want regular", after.ActiveChannel)
	}
	s.with(func(f *Facts) {
		f.Report.Kyma = &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular"}, Generation: 4}
		f.Published.State.Kyma.Spec.Channel = "fast"
	})
	if after := s.status(); after.ActiveChannel != "fast" {
		t.Errorf("got active channel %q, want channel fast of the bundle's Kyma", after.ActiveChannel)
	}
	m := after.Modules[0]
	if m.FQDN != "kyma-pull.dev/module/keda" || m.Channel != "regular" || m.Template == nil ||
		m.Template.PartialMeta.Name != "keda-1.0.0" {
		t.Errorf("got module %+v, want keda of channel regular with template keda-1.0.0", m)
	}
	template := v1beta2.PartialMeta{Name: "keda-1.0.0", Namespace: "kcp-system", Generation: 4}
	s.with(func(f *Facts) {
		f.Templates = map[string]v1beta2.PartialMeta{"keda-1.0.0": template}
		f.Report.Modules[0].Manifest, f.Report.Modules[0].Resource = &v1beta2.TrackingObject{},
			&v1beta2.TrackingObject{}
	})
	if m := s.status().Modules[0]; m.Template.PartialMeta != template || m.Manifest == nil {
		t.Errorf("got template %+v and manifest %+v, want template %+v and a manifest", m.Template, m.Manifest,
			template)
	}
	s.with(func(f *Facts) { f.Published.State.Manifests[0].Unmanaged = true })
	if m := s.status().Modules[0]; m.State != v1beta2.StateUnmanaged || m.Template != nil || m.Manifest != nil ||
		m.Resource != nil {
		t.Errorf("unmanaged module: got %+v, want no references", m)
	}
}

func TestAcceptedReportIsRecordedInStatus(t *testing.T) {
	status := v1beta2.KymaStatus{}
	RecordReport(&status, bundle.AcceptedReport{Enrolled: true, Report: bundle.Report{
		Sequence: 5, Time: noon, AgentVersion: "v1", KubernetesVersion: "v1.36.3", ClusterUID: "uid",
		Observed:   &bundle.Observed{Epoch: 1, Sequence: 7, Digest: newest},
		Kyma:       &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "fast"}, Generation: 4},
		Enrollment: &trust.Enrollment{TokenExpires: noon.Unix()},
	}}, "public", "thumb", noon)
	r := status.Runtime
	if r.ReportSequence != 5 || r.Observed.Digest != newest.String() || r.Observed.Sequence != 7 ||
		r.Observed.ClusterUID != "uid" {
		t.Errorf("got status %+v, want report 5 about bundle 7", r)
	}
	if r.Requested.Spec.Channel != "fast" || r.Requested.Generation != 4 {
		t.Errorf("got request %+v, want channel fast of generation 4", r.Requested)
	}
	if r.Key.PublicKey != "public" || r.Key.Thumbprint != "thumb" || !r.Key.TokenExpires.Time.Equal(noon) {
		t.Errorf("got key %+v, want public with thumbprint thumb", r.Key)
	}
	t.Run("Kyma that is being deleted does not change the request", func(t *testing.T) {
		RecordReport(&status,
			bundle.AcceptedReport{
				Report: bundle.Report{
					Sequence: 6, Time: noon, Kyma: &bundle.ReportedKyma{Deleting: true, Generation: 5},
				},
			}, "", "", noon)
		if status.Runtime.Requested.Generation != 4 || status.Runtime.Key.PublicKey != "public" {
			t.Errorf("got request %+v and key %+v, want no change", status.Runtime.Requested, status.Runtime.Key)
		}
	})
	t.Run("report without a bundle clears the observed bundle", func(t *testing.T) {
		if o := status.Runtime.Observed; o.Digest != "" || o.Sequence != 0 {
			t.Errorf("got observed bundle %+v, want none", o)
		}
	})
}
