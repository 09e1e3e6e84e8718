package fleet

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

type kymaState struct {
	kyma *v1beta2.Kyma
	// status contains the status of the modules to evaluate. isSingle is true if JudgeModule evaluates a single module.
	status       []v1beta2.ModuleStatus
	isSingle     bool
	carried      bool
	now          time.Time
	versionHolds map[string]plan.VersionHold
	// These are the conditions in the Kyma's status. A missing condition is nil.
	ready, reporting, registry, accepted, synced, secrets, agent, features, modules, watchers, removals,
	publishing *metav1.Condition
}

func (k *kymaState) readConditions() {
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

func (k *kymaState) published() *v1beta2.PublishedBundle {
	if k.kyma.Status.Runtime == nil {
		return nil
	}
	return k.kyma.Status.Runtime.Published
}

func (k *kymaState) hasReportingReason(reason string) bool {
	return k.reporting != nil && k.reporting.Status != metav1.ConditionTrue && k.reporting.Reason == reason
}

func (k *kymaState) firstUnready() *v1beta2.ModuleStatus {
	for i := range k.status {
		if m := &k.status[i]; m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged {
			return m
		}
	}
	return nil
}

type finding struct {
	situation Situation
	message   string
	// module and rollout are the names of the affected module and rollout. They can be empty.
	module, rollout string
	// wave replaces the placeholder WAVE in the advice. If advice is set, it replaces the default advice of the
	// situation.
	wave, advice string
	// startedAt is the time when the problem began, or zero if unknown.
	startedAt time.Time
}

func newFinding(situation Situation, c *metav1.Condition) *finding {
	return &finding{situation: situation, message: c.Message, startedAt: c.LastTransitionTime.Time}
}

func (k *kymaState) newModuleFinding(situation Situation, m *v1beta2.ModuleStatus) *finding {
	f := &finding{
		situation: situation, module: m.Name, message: "module " + m.Name + " is " + string(m.State) + ": " +
			cmp.Or(m.Message, "no reason was reported"),
	}
	if published := k.published(); published != nil {
		f.rollout = published.Given[m.Name].Rollout
	}
	return f
}
