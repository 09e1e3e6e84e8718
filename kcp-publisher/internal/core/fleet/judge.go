package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Rollouts indexes the rollouts by module, so that Judge finds the rollouts of a runtime fast. It is safe for
// concurrent use.
type Rollouts struct{ holders plan.Holders }

// NewRollouts returns an index of the rollouts for Judge and JudgeModule.
func NewRollouts(all []v1alpha1.Rollout) Rollouts { return Rollouts{plan.NewHolders(all)} }

// Judge evaluates the health of a Kyma's runtime. The returned Runtime uses the Kyma's label map without copying it.
func Judge(kyma *v1beta2.Kyma, rollouts Rollouts, now time.Time) Runtime {
	return judge(known{kyma: kyma, status: kyma.Status.Modules, now: now, holds: rollouts.holders.Of(kyma)})
}

// JudgeModule evaluates the health of a Kyma's runtime like Judge, but considers only one module. It returns false if
// the Kyma's status does not contain the module.
func JudgeModule(kyma *v1beta2.Kyma, module string, rollouts Rollouts, now time.Time) (Runtime, bool) {
	at := slices.IndexFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool { return m.Name == module })
	if at < 0 {
		return Runtime{}, false
	}
	m := &kyma.Status.Modules[at]
	r := judge(known{
		kyma: kyma, status: kyma.Status.Modules[at : at+1], one: true, now: now, holds: rollouts.holders.Of(kyma),
	})
	if r.Cause == nil && m.State == v1beta2.StateReady && m.Message != "" {
		k := known{kyma: kyma}
		f := found{
			situation: ModuleRemark, module: m.Name, message: "module " + m.Name + " is Ready in version " + m.Version +
				": " + m.Message,
		}
		r.Cause = k.cause(&f)
	}
	return r, true
}

type known struct {
	kyma *v1beta2.Kyma
	// status contains the status of the modules to evaluate. one is true if JudgeModule evaluates a single module.
	status  []v1beta2.ModuleStatus
	one     bool
	carried bool
	now     time.Time
	holds   map[string]plan.Hold
	// These are the conditions in the Kyma's status. A missing condition is nil.
	ready, reporting, registry, accepted, synced, secrets, agent, features, modules, watchers, removals,
	publishing *metav1.Condition
}

func judge(k known) Runtime {
	kyma := k.kyma
	_, k.carried, _ = plan.Rules{}.Allowed(kyma) // ignore the error: the Kyma's status already contains it
	k.readConditions()
	r := Runtime{
		ID: line(plan.RuntimeID(kyma)), Namespace: kyma.Namespace, Kyma: kyma.Name, Labels: kyma.Labels,
		Channel: line(cmp.Or(kyma.Status.ActiveChannel, kyma.Spec.Channel)),
		State:   kyma.Status.State, Health: Healthy, Reporting: plan.Reports(kyma), Modules: k.runtimeModules(),
	}
	if published := k.published(); published != nil {
		r.Published = published.Sequence
		if c := published.Certificate; c != nil {
			r.CertificateExpires = &c.NotAfter.Time
		}
	}
	if s := kyma.Status.Runtime; s != nil && s.Observed != nil {
		r.InForce, r.Agent, r.Kubernetes = s.Observed.Sequence, line(s.Observed.AgentVersion),
			line(s.Observed.KubernetesVersion)
		lastReport := plan.LastReportTime(kyma)
		r.LastReport = &lastReport
	}
	for _, rule := range rules {
		f := rule(&k)
		if f == nil {
			continue
		}
		r.Cause, r.Health = k.cause(f), byName[f.situation].Health
		if !f.since.IsZero() {
			r.Since = &f.since
		}
		break
	}
	if r.Health == Silent && r.Cause.Situation == PublisherAbsent {
		r.Reporting = false
	}
	if !kyma.DeletionTimestamp.IsZero() &&
		(r.Health == Behind || r.Health == Healthy || r.Health == NeverReported && r.Cause.Situation == NotLookedAt) {
		r.Health = Deleting
	}
	return r
}

func (k *known) readConditions() {
	for i := range k.kyma.Status.Conditions {
		c := &k.kyma.Status.Conditions[i]
		switch c.Type {
		case v1beta2.ConditionReady:
			k.ready = c
		case v1beta2.ConditionReporting:
			k.reporting = c
		case v1beta2.ConditionRegistry:
			k.registry = c
		case v1beta2.ConditionAccepted:
			k.accepted = c
		case v1beta2.ConditionSynced:
			k.synced = c
		case v1beta2.ConditionSecrets:
			k.secrets = c
		case v1beta2.ConditionFeatures:
			k.features = c
		case v1beta2.ConditionAgent:
			k.agent = c
		case v1beta2.ConditionModules:
			k.modules = c
		case v1beta2.ConditionSKRWebhook:
			k.watchers = c
		case v1beta2.ConditionRemovals:
			k.removals = c
		case v1beta2.ConditionPublishing:
			k.publishing = c
		}
	}
}

func (k *known) published() *v1beta2.PublishedBundle {
	if k.kyma.Status.Runtime == nil {
		return nil
	}
	return k.kyma.Status.Runtime.Published
}

func (k *known) notReporting(reason string) bool {
	return k.reporting != nil && k.reporting.Status != metav1.ConditionTrue && k.reporting.Reason == reason
}

func (k *known) firstUnready() *v1beta2.ModuleStatus {
	for i := range k.status {
		if m := &k.status[i]; m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged {
			return m
		}
	}
	return nil
}

func of(situation Situation, c *metav1.Condition) *found {
	return &found{situation: situation, message: c.Message, since: c.LastTransitionTime.Time}
}

func (k *known) ofModule(situation Situation, m *v1beta2.ModuleStatus) *found {
	f := &found{
		situation: situation, module: m.Name, message: "module " + m.Name + " is " + string(m.State) + ": " +
			cmp.Or(m.Message, "no reason was reported"),
	}
	if published := k.published(); published != nil {
		f.rollout = published.Given[m.Name].Rollout
	}
	return f
}

// cause converts a finding to a Cause. It shortens long texts and removes unprintable characters.
func (k *known) cause(f *found) *Cause {
	advice := cmp.Or(f.advice, byName[f.situation].Advice)
	for _, name := range [...]struct{ placeholder, name string }{
		{"RUNTIME", plan.RuntimeID(k.kyma)}, {"NAMESPACE", k.kyma.Namespace}, {"KYMA", k.kyma.Name},
		{"MODULE", f.module}, {"ROLLOUT", f.rollout}, {"WAVE", f.wave},
	} {
		if strings.Contains(advice, name.placeholder) {
			advice = strings.ReplaceAll(advice, name.placeholder, word(name.name, name.placeholder))
		}
	}
	return &Cause{Situation: f.situation, Message: text(f.message), Advice: advice}
}

func (k *known) runtimeModules() []RuntimeModule {
	if len(k.status) == 0 {
		return nil
	}
	published := k.published()
	reported := k.kyma.Status.Runtime != nil && k.kyma.Status.Runtime.Observed != nil
	all := make([]RuntimeModule, len(k.status))
	for i := range k.status {
		m := &k.status[i]
		all[i] = RuntimeModule{Name: line(m.Name), Channel: line(m.Channel), State: m.State, Message: text(m.Message)}
		if reported {
			// Until the first report, m.Version is the requested version, not the running one.
			all[i].Version = line(m.Version)
		}
		if published != nil {
			all[i].Asked = published.Versions[m.Name]
		}
		if hold, is := k.holds[m.Name]; is {
			all[i].Held = text(hold.Why)
		}
	}
	return all
}
