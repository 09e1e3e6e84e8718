// Package fleet evaluates the health of all runtimes. From the objects of the control plane and the time it derives
// each runtime's health and first cause, the running module versions, and the rollouts. The command line, the web UI,
// the metrics and `why` use this model, so they always agree.
package fleet

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Input is the input of an evaluation.
type Input struct {
	Kymas []v1beta2.Kyma
	// Healthy are runtimes that are known to be healthy. Their Kymas are not in Kymas.
	Healthy  []Runtime
	Rollouts []v1alpha1.Rollout
	Metas    []v1beta2.ModuleReleaseMeta
	Trains   []v1alpha1.PromotionPolicy
	// RootExpires is the time when the root of trust expires, or zero if unknown.
	RootExpires time.Time
	// Held is the reason why publishing is on hold, such as a partially applied commit, or empty.
	Held string
	Now  time.Time
}

// Fleet is the state of all runtimes at one time.
type Fleet struct {
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`
	// Runtimes are sorted by id.
	Runtimes []Runtime `json:"runtimes"`
	// Modules are sorted by name.
	Modules  []Module  `json:"modules,omitempty"`
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// RootExpires is the time when the root of trust expires, or nil if unknown.
	RootExpires *time.Time `json:"rootExpires,omitempty"`
	// Warnings are causes that affect no single runtime, such as a root of trust that expires soon.
	Warnings []Cause `json:"warnings,omitempty"`
}

// Health summarizes a runtime in one word. Its first cause determines it.
type Health string

// Healths of a runtime, worst first.
const (
	// Failing runtimes have a problem that does not resolve by itself: a refused bundle, a broken module, a failed
	// publication.
	Failing Health = "Failing"
	// Silent runtimes have reported before, but not within the allowed time.
	Silent Health = "Silent"
	// NeverReported runtimes are not enrolled yet, as far as the control plane knows.
	NeverReported Health = "NeverReported"
	// Suspended runtimes have a label that suspends publishing. Their status is not updated.
	Suspended Health = "Suspended"
	// Deleting runtimes are removing their modules.
	Deleting Health = "Deleting"
	// Behind runtimes have not applied the latest bundle yet, or their modules are not ready yet.
	Behind Health = "Behind"
	// Healthy runtimes have applied the latest bundle, and all their modules are ready. A held newer version can still
	// be their cause.
	Healthy Health = "Healthy"
)

// Healths returns all healths, worst first.
func Healths() []Health {
	return []Health{Failing, Silent, NeverReported, Suspended, Deleting, Behind, Healthy}
}

// NeedsAttention reports whether an operator must act. The exit code of `status`, the web UI, the metrics and the
// alerts all use this rule.
func (h Health) NeedsAttention() bool { return h == Failing || h == Silent || h == NeverReported }

// Attention returns the number of runtimes that need attention.
func (s Summary) Attention() (n int) {
	for h, count := range s.Health {
		if h.NeedsAttention() {
			n += count
		}
	}
	return n
}

// Summary counts runtimes.
type Summary struct {
	Total  int            `json:"total"`
	Health map[Health]int `json:"health"`
	// Situations counts runtimes by the situation of their first cause.
	Situations map[Situation]int `json:"situations,omitempty"`
	// OldestReport is the last report of the runtime that has been silent the longest, or nil without silent runtimes.
	OldestReport *time.Time `json:"oldestReport,omitempty"`
}

// Cause is the first problem of a runtime or module.
type Cause struct {
	Situation Situation `json:"situation"`
	// Message describes the problem, Advice the fix. Both are plain text; parts can come from a runtime.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Subject distinguishes warnings of one situation, such as warnings about two rollouts. Empty for other causes.
	Subject string `json:"subject,omitempty"`
}

// Same reports whether two causes are about the same problem, even if their messages differ in numbers.
func (c Cause) Same(other Cause) bool {
	return c.Situation == other.Situation && c.Subject == other.Subject
}

// Runtime is one runtime.
type Runtime struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Kyma      string            `json:"kyma"`
	Labels    map[string]string `json:"labels,omitempty"`
	Channel   string            `json:"channel"`
	State     v1beta2.State     `json:"state,omitempty"`
	Health    Health            `json:"health"`
	// Cause is nil without a problem. The cause of a healthy runtime only holds back a newer version.
	Cause *Cause `json:"cause,omitempty"`
	// Since is the time when the cause began, or nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	// LastReport is the last recorded report, or nil. Reporting is true if the runtime is still reporting.
	LastReport *time.Time `json:"lastReport,omitempty"`
	Reporting  bool       `json:"reporting"`
	// Published and InForce are the sequences of the latest bundle and of the reported one, or 0.
	Published int64  `json:"published,omitempty"`
	InForce   int64  `json:"inForce,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// CertificateExpires is the expiry of the certificate last issued to the agent, or nil.
	CertificateExpires *time.Time      `json:"certificateExpires,omitempty"`
	Kubernetes         string          `json:"kubernetes,omitempty"`
	Modules            []RuntimeModule `json:"modules,omitempty"`
	// Bundles are the last bundles, newest first. It is only set for a single requested runtime.
	Bundles []Bundle `json:"bundles,omitempty"`
}

// RuntimeModule is a module of one runtime.
type RuntimeModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the running version, or empty if unknown. Asked is the published version, or empty if the module is
	// being removed.
	Version string        `json:"version,omitempty"`
	Asked   string        `json:"asked,omitempty"`
	State   v1beta2.State `json:"state"`
	Message string        `json:"message,omitempty"`
	// Held names the rollout that holds back a newer version.
	Held string `json:"held,omitempty"`
}

// Module is a module across all runtimes.
type Module struct {
	Name string `json:"name"`
	// Channels are the catalog's versions by channel.
	Channels map[string]string `json:"channels,omitempty"`
	// Versions are sorted, newest first.
	Versions []ModuleVersion `json:"versions,omitempty"`
}

// ModuleVersion is the number of runtimes with a version, by state. Version is empty for runtimes with an unknown
// version.
type ModuleVersion struct {
	Version string                `json:"version"`
	States  map[v1beta2.State]int `json:"states"`
}

// Rollout is an active or finished promotion.
type Rollout struct {
	Name string `json:"name"`
	// Namespace is the namespace of the Rollout object.
	Namespace string                 `json:"namespace"`
	Spec      v1alpha1.RolloutSpec   `json:"spec"`
	Status    v1alpha1.RolloutStatus `json:"status"`
	Active    bool                   `json:"active"`
}
