// Package fleet evaluates the health of all runtimes. From the control plane's objects and the current time, it derives
// each runtime's health and cause, the running module versions, and the rollouts. The command line, the web UI, and the
// metrics all use this model, so they always agree.
package fleet

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Input contains the control plane objects and settings that Assess evaluates.
type Input struct {
	Kymas []v1beta2.Kyma
	// Healthy lists runtimes that are known to be healthy. Kymas does not contain their Kymas.
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
	// Runtimes is sorted by id.
	Runtimes []Runtime `json:"runtimes"`
	// Modules is sorted by name.
	Modules  []Module  `json:"modules,omitempty"`
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// RootExpires is the time when the root of trust expires, or nil if unknown.
	RootExpires *time.Time `json:"rootExpires,omitempty"`
	// Warnings lists fleet-wide causes, such as a root of trust that expires soon.
	Warnings []Cause `json:"warnings,omitempty"`
}

// Health summarizes the state of a runtime in one word. It is determined by the runtime's cause.
type Health string

// Health values of a runtime, worst first.
const (
	// Failing runtimes have a problem that does not resolve by itself: a refused bundle, a broken module, a failed
	// publication.
	Failing Health = "Failing"
	// Silent runtimes have reported before, but not within the allowed time.
	Silent Health = "Silent"
	// NeverReported runtimes have never sent a report that the publisher accepted. Usually no agent is enrolled yet.
	NeverReported Health = "NeverReported"
	// Suspended runtimes have a Kyma with the label that suspends publishing. Their status is not updated.
	Suspended Health = "Suspended"
	// Deleting runtimes are removing their modules.
	Deleting Health = "Deleting"
	// Behind runtimes have not applied the latest bundle yet, or their modules are not ready yet.
	Behind Health = "Behind"
	// Healthy runtimes have applied the latest bundle, and all their modules are ready. They have a cause if a rollout
	// holds back a newer version.
	Healthy Health = "Healthy"
)

// Healths returns all values of Health, worst first.
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

// Summary contains the number of runtimes by health and by situation.
type Summary struct {
	Total  int            `json:"total"`
	Health map[Health]int `json:"health"`
	// Situations is the number of runtimes by the situation of their cause.
	Situations map[Situation]int `json:"situations,omitempty"`
	// OldestReport is the time of the last report of the runtime that has been silent the longest. It is nil if no
	// runtime is silent.
	OldestReport *time.Time `json:"oldestReport,omitempty"`
}

// Cause is the problem that determines the health of a runtime or module, or a warning about the fleet.
type Cause struct {
	Situation Situation `json:"situation"`
	// Message describes the problem and Advice the fix. Both are plain text and can contain text from a runtime.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Subject distinguishes warnings with the same situation, such as warnings about two rollouts. It is empty for
	// other causes.
	Subject string `json:"subject,omitempty"`
}

// Same reports whether two causes are about the same problem, even if their messages differ in numbers.
func (c Cause) Same(other Cause) bool {
	return c.Situation == other.Situation && c.Subject == other.Subject
}

// Runtime is the evaluated state of one runtime.
type Runtime struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Kyma      string            `json:"kyma"`
	Labels    map[string]string `json:"labels,omitempty"`
	Channel   string            `json:"channel"`
	State     v1beta2.State     `json:"state,omitempty"`
	Health    Health            `json:"health"`
	// Cause is nil if the runtime has no problem. The cause of a healthy runtime needs no urgent action, such as a
	// rollout that holds back a version.
	Cause *Cause `json:"cause,omitempty"`
	// Since is the time when the cause began, or nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	// LastReport is the time of the last recorded report, or nil. Reporting is true if the runtime is still reporting.
	LastReport *time.Time `json:"lastReport,omitempty"`
	Reporting  bool       `json:"reporting"`
	// Published is the sequence of the latest bundle, and InForce the sequence of the last reported bundle. They are 0
	// if unknown.
	Published int64  `json:"published,omitempty"`
	InForce   int64  `json:"inForce,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// CertificateExpires is the expiry of the certificate last issued to the agent, or nil.
	CertificateExpires *time.Time      `json:"certificateExpires,omitempty"`
	Kubernetes         string          `json:"kubernetes,omitempty"`
	Modules            []RuntimeModule `json:"modules,omitempty"`
	// Bundles lists the last bundles, newest first. It is only set if a single runtime was requested.
	Bundles []Bundle `json:"bundles,omitempty"`
}

// RuntimeModule is a module in one runtime.
type RuntimeModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the running version, or empty if unknown. Asked is the published version. It is empty if the module is
	// being removed.
	Version string        `json:"version,omitempty"`
	Asked   string        `json:"asked,omitempty"`
	State   v1beta2.State `json:"state"`
	Message string        `json:"message,omitempty"`
	// Held is a message about the rollout that holds back a newer version, or empty.
	Held string `json:"held,omitempty"`
}

// Module contains a module's versions in the catalog and in all runtimes.
type Module struct {
	Name string `json:"name"`
	// Channels maps each channel to its version in the catalog.
	Channels map[string]string `json:"channels,omitempty"`
	// Versions lists the running versions, newest first.
	Versions []ModuleVersion `json:"versions,omitempty"`
}

// ModuleVersion contains the number of runtimes with a version of a module, by state. Version is empty if the running
// version is unknown.
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
