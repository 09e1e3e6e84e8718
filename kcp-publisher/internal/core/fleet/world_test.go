package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

var (
	noon    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	newest  = digest.FromString("newest")
	earlier = digest.FromString("earlier")
)

// world is a Kyma with the facts about its runtime. By default, the runtime has applied the latest bundle, and its
// modules are ready.
type world struct {
	*testing.T
	kyma     v1beta2.Kyma
	facts    ingest.Facts
	rollouts []v1alpha1.Rollout
	// lastReport is the time of the last report, and now is the time of the evaluation.
	lastReport, now time.Time
	// holding describes a partially applied Git commit, or is empty. During the commit, the publisher only renews
	// bundles.
	holding string
	// untouched is true if the test has set the Kyma's status itself. The status is then not computed from the facts.
	untouched bool
}

func newWorld(t *testing.T) *world {
	return &world{
		T: t, lastReport: noon.Add(-time.Minute), now: noon,
		kyma: v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "one",
				CreationTimestamp: metav1.NewTime(noon.Add(-48 * time.Hour)),
				Labels:            map[string]string{v1beta2.LabelRuntimeID: "r-1"}},
			Spec: v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "keda", Managed: true}}},
		},
		facts: ingest.Facts{
			Generation: 3, SilenceTimeout: 30 * time.Minute,
			Published: &plan.PublishedBundle{
				Predicate: bundle.Predicate{Sequence: 7, IssuedAt: noon.Add(-time.Hour)}, Digest: newest,
				State: bundle.DesiredState{
					Kyma:      bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: "regular"}},
					Manifests: []bundle.Manifest{manifest("keda"), manifest("mail")},
				},
				Versions: map[string]string{"keda": "1.0.0", "mail": "1.0.0"},
			},
			Report: &bundle.AcceptedReport{Report: bundle.Report{
				Sequence: 5, Time: noon.Add(-time.Minute), AgentVersion: "v0.1.0", KubernetesVersion: "v1.36.3",
				Observed: &bundle.Observed{Epoch: 1, Sequence: 7, Digest: newest},
				Modules:  []bundle.ReportedModule{ready("keda"), ready("mail")},
			}},
		},
	}
}

func manifest(name string) bundle.Manifest {
	return bundle.Manifest{
		Name: name, Module: name, Channel: "regular", Version: "1.0.0", Component: "kyma-pull.dev/module/" + name,
		Template: name + "-1.0.0",
	}
}

func ready(name string) bundle.ReportedModule {
	return bundle.ReportedModule{Name: name, Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady}
}

func (w *world) status() *v1beta2.Kyma {
	if w.untouched {
		return &w.kyma
	}
	if w.facts.Report != nil {
		ingest.RecordReport(&w.kyma.Status, *w.facts.Report, "key", "thumbprint", w.lastReport)
	}
	w.kyma.Status = ingest.NextStatus(w.kyma.Status, w.facts, w.now)
	w.kyma.Status = ingest.HeldStatus(w.kyma.Status, ingest.Facts{Generation: 3}, w.holding, w.now)
	return &w.kyma
}

func (w *world) judged() Runtime { return Judge(w.status(), NewRollouts(w.rollouts), w.now) }

func (w *world) never() *world {
	w.facts.Report = nil
	return w
}

// pending simulates a runtime that has not reported the latest bundle. published is the time since that bundle was
// published.
func (w *world) pending(published time.Duration) *world {
	w.facts.Report.Observed.Digest, w.facts.Report.Observed.Sequence = earlier, 6
	w.facts.Published.Predicate.IssuedAt = w.now.Add(-published)
	return w
}

// certified adds an agent certificate. ago is the time since the certificate was issued, and left is the time until it
// expires.
func (w *world) certified(ago, left time.Duration) *world {
	w.Helper()
	agent := trusttest.NewSigner(w)
	text, err := trust.IssueCertificate(agent, "", "r-1", trust.Kyma{}, trusttest.PublicKey(w, agent), noon.Add(-ago),
		noon.Add(left))
	if err != nil {
		w.Fatal(err)
	}
	w.facts.Published.Predicate.Certificate = text
	return w
}

func (w *world) reports(module string, state v1beta2.State, message string) *world {
	for i := range w.facts.Report.Modules {
		if m := &w.facts.Report.Modules[i]; m.Name == module {
			m.State, m.Message = state, message
		}
	}
	return w
}

func (w *world) because(module string, why reason.Reason) *world {
	for i := range w.facts.Report.Modules {
		if m := &w.facts.Report.Modules[i]; m.Name == module {
			m.Reason = why
		}
	}
	return w
}

func (w *world) refusedReport(reason refusal.Reason, detail string) *world {
	w.facts.ReportRefused = refusal.New(reason, "%s", detail)
	return w
}

func (w *world) refusedBundle(reason refusal.Reason) *world {
	w.pending(time.Minute).facts.Report.Refused = []bundle.RefusedBundle{
		{Digest: newest, Reason: reason, Detail: "detail (of the refusal)", Time: noon},
	}
	return w
}

func (w *world) failed(err error) *world {
	w.facts.PublishError = err
	return w
}

// asks resolves a request for module m and adds the resulting problems to the facts. The catalog contains the module
// keda and a beta module named beta. keda has version 1.0.0 in channel regular and version 1.1.0 in channel fast, but
// version 1.1.0 has no ModuleTemplate.
func (w *world) asks(
	m v1beta2.Module, contents map[resolve.ComponentRef]resolve.Content, changes ...func(*resolve.Request),
) *world {
	w.Helper()
	meta := func(module string, beta bool, channels ...v1beta2.ChannelVersion) v1beta2.ModuleReleaseMeta {
		return v1beta2.ModuleReleaseMeta{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module},
			Spec: v1beta2.ModuleReleaseMetaSpec{
				ModuleName: module, OcmComponentName: "kyma-pull.dev/module/" + module, Beta: beta, Channels: channels,
			}}
	}
	template := v1beta2.ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-1.0.0"},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: "keda", Version: "1.0.0", Descriptor: runtime.RawExtension{Raw: []byte("{}")},
		}}
	snapshot, err := catalog.New([]v1beta2.ModuleTemplate{template}, []v1beta2.ModuleReleaseMeta{
		meta("keda", false, v1beta2.ChannelVersion{Channel: "regular", Version: "1.0.0"},
			v1beta2.ChannelVersion{Channel: "fast", Version: "1.1.0"}),
		meta("beta", true, v1beta2.ChannelVersion{Channel: "regular", Version: "1.0.0"}),
	})
	if err != nil {
		w.Fatal(err)
	}
	m.Managed = true
	request := resolve.Request{
		Labels: w.kyma.Labels, Requested: v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{m}},
	}
	for _, change := range changes {
		change(&request)
	}
	w.facts.Problems = append(w.facts.Problems, resolve.Resolve(request, snapshot, contents).State.Problems...)
	if len(w.facts.Problems) == 0 {
		w.Fatalf("module %+v was resolved without a problem", m)
	}
	return w
}

func broken(err error) map[resolve.ComponentRef]resolve.Content {
	return map[resolve.ComponentRef]resolve.Content{{Component: "kyma-pull.dev/module/keda", Version: "1.0.0"}: {Err: err}}
}

// rollout adds a rollout of keda from 1.0.0 to 1.1.0 with one wave.
func (w *world) rollout(state v1alpha1.RolloutState, changes ...func(*v1alpha1.Rollout)) *world {
	all := int32(100)
	everybody := int64(1) << 53
	r := v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-regular-1"},
		Spec: v1alpha1.RolloutSpec{Policy: "waves", Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0",
			To:     "1.1.0",
			Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{Name: "all", Percent: &all}}}},
		Status: v1alpha1.RolloutStatus{State: state, Waves: []v1alpha1.WaveStatus{{Name: "all", Place: &everybody}}},
	}
	for _, change := range changes {
		change(&r)
	}
	w.rollouts = append(w.rollouts, r)
	return w
}

// withVersion records that rollout keda-regular-1 installed the runtime's version of keda.
func (w *world) withVersion() *world {
	w.facts.SelectedVersions = map[string]v1beta2.GivenVersion{
		"keda": {Rollout: "keda-regular-1", Time: metav1.NewTime(noon.Add(-time.Hour))},
	}
	return w
}

func (w *world) mustContain(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("got %q, want a text that contains %q", text, part)
		}
	}
}

func publishing(err error) error { return fmt.Errorf("publish to runtime r-1: %w", err) }
