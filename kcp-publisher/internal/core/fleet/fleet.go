// Package fleet evaluates all runtimes' health from the control plane's objects and the current time. The command line,
// the web UI and the metrics use it.
package fleet

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Input contains the control plane objects and settings that Assess evaluates.
type Input struct {
	Kymas []v1beta2.Kyma
	// Healthy lists runtimes that the caller already knows to be healthy. Their Kymas are not in the field Kymas.
	Healthy  []Runtime
	Rollouts []v1alpha1.Rollout
	Metas    []v1beta2.ModuleReleaseMeta
	Trains   []v1alpha1.PromotionPolicy
	// InvalidPolicies lists the RolloutPolicies that prevent rollouts from starting.
	InvalidPolicies []InvalidPolicy
	// UnmatchedPolicies lists the RolloutPolicies that apply to no module.
	UnmatchedPolicies []UnmatchedPolicy
	// RootExpires is the expiry of the root of trust, or zero if unknown.
	RootExpires time.Time
	// Held is the reason why publishing is stopped for all runtimes. It is empty if publishing is not stopped.
	Held string
	// LeftOut lists the catalog objects that all bundles omit.
	LeftOut []LeftOutObject
	Now     time.Time
}

// InvalidPolicy is an invalid RolloutPolicy that the API server accepted. Problem names the field.
type InvalidPolicy struct{ Namespace, Name, Problem string }

// UnmatchedPolicy is a RolloutPolicy whose modules have no ModuleReleaseMeta.
type UnmatchedPolicy struct {
	Namespace, Name string
	Modules         []string
}

// LeftOutObject is a ModuleTemplate or ModuleReleaseMeta that all bundles omit, because agents would refuse it.
type LeftOutObject struct {
	// Object is the object's kind, namespace and name.
	Object string
	// Reason names the object, the field and the limit.
	Reason string
}

// Fleet is the state of all runtimes at one point in time.
type Fleet struct {
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`
	// Runtimes is sorted by ID.
	Runtimes []Runtime `json:"runtimes"`
	// Modules is sorted by name.
	Modules  []Module  `json:"modules,omitempty"`
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// RootExpires is the expiry of the root of trust, or nil if unknown.
	RootExpires *time.Time `json:"rootExpires,omitempty"`
	// Warnings lists the problems that affect the whole fleet.
	Warnings []Cause `json:"warnings,omitempty"`
}

// Attention returns the number of runtimes that require an operator to act.
func (s Summary) Attention() (n int) {
	for h, count := range s.Health {
		if h.NeedsAttention() {
			n += count
		}
	}
	return n
}

// Summary counts the runtimes by health and by situation.
type Summary struct {
	Total  int            `json:"total"`
	Health map[Health]int `json:"health"`
	// Situations counts the runtimes by the situation in Runtime.Cause.
	Situations map[Situation]int `json:"situations,omitempty"`
	// OldestReport is the time of the last report from the runtime that has been silent the longest. It is nil if no
	// runtime is silent.
	OldestReport *time.Time `json:"oldestReport,omitempty"`
}

// Cause is the problem that determines a runtime's or module's health, or a warning about the fleet.
type Cause struct {
	Situation Situation `json:"situation"`
	// Message describes the problem, and Advice describes the fix. Both can contain text that a runtime reported.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Subject distinguishes warnings with the same situation, for example by the name of the rollout.
	Subject string `json:"subject,omitempty"`
}

// IsSameProblem reports whether two causes describe the same problem, even if the numbers in their messages differ.
func (c Cause) IsSameProblem(other Cause) bool {
	return c.Situation == other.Situation && c.Subject == other.Subject
}

// Runtime is the health and the state of one runtime.
type Runtime struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Kyma      string            `json:"kyma"`
	Labels    map[string]string `json:"labels,omitempty"`
	Channel   string            `json:"channel"`
	State     v1beta2.State     `json:"state,omitempty"`
	Health    Health            `json:"health"`
	// Cause is the problem that determines the runtime's health, or nil if the runtime has no problem.
	Cause *Cause `json:"cause,omitempty"`
	// Since is the time when the problem in Cause began, or nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	// LastReport is the time of the last report in the Kyma's status, or nil. Reporting is false if the runtime is
	// silent.
	LastReport *time.Time `json:"lastReport,omitempty"`
	Reporting  bool       `json:"reporting"`
	// Published is the sequence number of the latest published bundle. InForce is the sequence number of the bundle
	// that the runtime last reported as applied. They are 0 if unknown.
	Published int64  `json:"published,omitempty"`
	InForce   int64  `json:"inForce,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// CertificateExpires is the expiry of the agent's certificate, or nil.
	CertificateExpires *time.Time      `json:"certificateExpires,omitempty"`
	Kubernetes         string          `json:"kubernetes,omitempty"`
	Modules            []RuntimeModule `json:"modules,omitempty"`
	// Bundles lists the runtime's last bundles, newest first. It is set only if the caller requested a single runtime.
	Bundles []Bundle `json:"bundles,omitempty"`
}

// RuntimeModule is a module in one runtime.
type RuntimeModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the version that runs in the runtime, or empty if unknown. Asked is the version in the latest
	// published bundle. Asked is empty if that bundle removes the module.
	Version string        `json:"version,omitempty"`
	Asked   string        `json:"asked,omitempty"`
	State   v1beta2.State `json:"state"`
	Message string        `json:"message,omitempty"`
	// Held describes the rollout that delays a newer version of the module, or is empty.
	Held string `json:"held,omitempty"`
}

// Module lists a module's versions in the channels of the catalog and in the runtimes.
type Module struct {
	Name string `json:"name"`
	// Channels maps each channel to the version that it offers in the catalog.
	Channels map[string]string `json:"channels,omitempty"`
	// Versions lists the versions that run in runtimes, newest first.
	Versions []ModuleVersion `json:"versions,omitempty"`
}

// ModuleVersion counts the runtimes that run one version of a module, by module state. Version is empty if unknown.
type ModuleVersion struct {
	Version string                `json:"version"`
	States  map[v1beta2.State]int `json:"states"`
}

// Rollout contains a Rollout object's name, spec and status. Active is false if the rollout is finished.
type Rollout struct {
	Name      string                 `json:"name"`
	Namespace string                 `json:"namespace"`
	Spec      v1alpha1.RolloutSpec   `json:"spec"`
	Status    v1alpha1.RolloutStatus `json:"status"`
	Active    bool                   `json:"active"`
}
