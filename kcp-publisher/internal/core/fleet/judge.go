package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Rollouts indexes the rollouts by module, so that Judge quickly finds the rollouts of a runtime. It is safe for
// concurrent use.
type Rollouts struct{ holders plan.Holders }

// NewRollouts returns an index of the rollouts for Judge and JudgeModule.
func NewRollouts(all []v1alpha1.Rollout) Rollouts { return Rollouts{plan.NewHolders(all)} }

// Judge evaluates the health of a Kyma's runtime. The returned Runtime uses the Kyma's label map without copying it.
func Judge(kyma *v1beta2.Kyma, rollouts Rollouts, now time.Time) Runtime {
	return judge(kymaState{kyma: kyma, status: kyma.Status.Modules, now: now,
		versionHolds: rollouts.holders.HoldsFor(kyma)})
}

// JudgeModule evaluates the health of a Kyma's runtime like Judge, but considers only one module. It returns false if
// the Kyma's status does not contain the module.
func JudgeModule(kyma *v1beta2.Kyma, module string, rollouts Rollouts, now time.Time) (Runtime, bool) {
	at := slices.IndexFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool { return m.Name == module })
	if at < 0 {
		return Runtime{}, false
	}
	m := &kyma.Status.Modules[at]
	r := judge(kymaState{
		kyma: kyma, status: kyma.Status.Modules[at : at+1], isSingle: true, now: now,
		versionHolds: rollouts.holders.HoldsFor(kyma),
	})
	if r.Cause == nil && m.State == v1beta2.StateReady && m.Message != "" {
		k := kymaState{kyma: kyma}
		f := finding{
			situation: ModuleRemark, module: m.Name, message: "module " + m.Name + " is Ready in version " + m.Version +
				": " + m.Message,
		}
		r.Cause = k.newCause(&f)
	}
	return r, true
}

func judge(k kymaState) Runtime {
	kyma := k.kyma
	_, k.carried, _ = plan.Rules{}.SilenceTimeoutFor(kyma) // ignore the error: the Kyma's status already contains it
	k.readConditions()
	r := Runtime{
		ID: cleanLine(plan.RuntimeID(kyma)), Namespace: kyma.Namespace, Kyma: kyma.Name, Labels: kyma.Labels,
		Channel: cleanLine(cmp.Or(kyma.Status.ActiveChannel, kyma.Spec.Channel)),
		State:   kyma.Status.State, Health: Healthy, Reporting: plan.IsReporting(kyma), Modules: k.runtimeModules(),
	}
	if published := k.published(); published != nil {
		r.Published = published.Sequence
		if c := published.Certificate; c != nil {
			r.CertificateExpires = &c.NotAfter.Time
		}
	}
	if s := kyma.Status.Runtime; s != nil && s.Observed != nil {
		r.InForce, r.Agent, r.Kubernetes = s.Observed.Sequence, cleanLine(s.Observed.AgentVersion),
			cleanLine(s.Observed.KubernetesVersion)
		lastReport := plan.LastReportTime(kyma)
		r.LastReport = &lastReport
	}
	for _, rule := range rules {
		f := rule(&k)
		if f == nil {
			continue
		}
		r.Cause, r.Health = k.newCause(f), byName[f.situation].Health
		if !f.startedAt.IsZero() {
			r.Since = &f.startedAt
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

// newCause converts a finding to a Cause. It shortens long strings and removes unprintable characters.
func (k *kymaState) newCause(f *finding) *Cause {
	advice := cmp.Or(f.advice, byName[f.situation].Advice)
	for _, name := range [...]struct{ placeholder, name string }{
		{"RUNTIME", plan.RuntimeID(k.kyma)}, {"NAMESPACE", k.kyma.Namespace}, {"KYMA", k.kyma.Name},
		{"MODULE", f.module}, {"ROLLOUT", f.rollout}, {"WAVE", f.wave},
	} {
		if strings.Contains(advice, name.placeholder) {
			advice = strings.ReplaceAll(advice, name.placeholder, shellWord(name.name, name.placeholder))
		}
	}
	return &Cause{Situation: f.situation, Message: cleanText(f.message), Advice: advice}
}

func (k *kymaState) runtimeModules() []RuntimeModule {
	if len(k.status) == 0 {
		return nil
	}
	published := k.published()
	reported := k.kyma.Status.Runtime != nil && k.kyma.Status.Runtime.Observed != nil
	all := make([]RuntimeModule, len(k.status))
	for i := range k.status {
		m := &k.status[i]
		all[i] = RuntimeModule{Name: cleanLine(m.Name), Channel: cleanLine(m.Channel), State: m.State,
			Message: cleanText(m.Message)}
		if reported {
			// Until the first report, m.Version is the requested version, not the running one.
			all[i].Version = cleanLine(m.Version)
		}
		if published != nil {
			all[i].Asked = published.Versions[m.Name]
		}
		if hold, is := k.versionHolds[m.Name]; is {
			all[i].Held = cleanText(hold.HoldReason)
		}
	}
	return all
}
