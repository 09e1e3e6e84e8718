// Package fleet tells how all runtimes are doing: in go what the control plane holds and the time, out come each
// runtime's health with the first cause of what is wrong, the versions that run where, and the rollouts. The command
// line, the page, the metrics and `why` show this model, so that they never disagree.
package fleet

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Input is what decides how a fleet is doing.
type Input struct {
	Kymas []v1beta2.Kyma
	// Healthy are runtimes of which nothing but this is known: their Kymas are not among Kymas.
	Healthy  []Runtime
	Rollouts []v1alpha1.Rollout
	Metas    []v1beta2.ModuleReleaseMeta
	// RootExpires is when the root of trust expires, zero where nobody knows it.
	RootExpires time.Time
	// Held is why nothing is published at all, such as a commit that is applied in part; empty where nothing is in the
	// way.
	Held string
	Now  time.Time
}

// Fleet is all runtimes at one time.
type Fleet struct {
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`
	// Runtimes are sorted by id.
	Runtimes []Runtime `json:"runtimes"`
	// Modules are sorted by name.
	Modules  []Module  `json:"modules,omitempty"`
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// RootExpires is when the root of trust expires, nil where nobody knows it.
	RootExpires *time.Time `json:"rootExpires,omitempty"`
	// Warnings are what concerns no single runtime, such as a root of trust that expires soon.
	Warnings []Cause `json:"warnings,omitempty"`
}

// Health is how a runtime is doing, in one word: that of its first cause.
type Health string

// Healths of a runtime, the worst first.
const (
	// Failing runtimes have something in their way that does not pass by itself: a refused bundle, a broken module, a
	// failed publish.
	Failing Health = "Failing"
	// Silent runtimes have reported once and are not heard for longer than allowed.
	Silent Health = "Silent"
	// NeverReported runtimes are not enrolled yet, as far as the control plane knows.
	NeverReported Health = "NeverReported"
	// Suspended runtimes are published nothing, by their label. Whatever else their status says is as old as the label.
	Suspended Health = "Suspended"
	// Deleting runtimes are removing their modules.
	Deleting Health = "Deleting"
	// Behind runtimes have not put in force yet what was published to them, or their modules are not ready yet.
	Behind Health = "Behind"
	// Healthy runtimes run what was published to them, and all of it is ready. What keeps a newer version back may still
	// be their cause.
	Healthy Health = "Healthy"
)

// Healths returns all healths, the worst first.
func Healths() []Health {
	return []Health{Failing, Silent, NeverReported, Suspended, Deleting, Behind, Healthy}
}

// NeedsAttention reports whether an operator has to act for a runtime. The verdict and exit code of `status`, the web
// page, the metrics and the alerts use this one rule.
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
	// OldestReport is when the runtime that is silent for longest was heard, of those that reported; nil without one.
	OldestReport *time.Time `json:"oldestReport,omitempty"`
}

// Cause is the first thing in the way of a runtime or module.
type Cause struct {
	Situation Situation `json:"situation"`
	// Message says what is wrong, Advice what to do about it. Both are plain text of which parts may come from a runtime.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
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
	// Cause is nil where nothing is in the way. That of a healthy runtime keeps only a newer version from it.
	Cause *Cause `json:"cause,omitempty"`
	// Since is when the cause began, nil where nobody knows.
	Since *time.Time `json:"since,omitempty"`
	// LastReport is when the runtime was heard last as far as it was noted; nil for never. Reporting says that it is heard
	// still.
	LastReport *time.Time `json:"lastReport,omitempty"`
	Reporting  bool       `json:"reporting"`
	// Published and InForce are the sequences of the newest bundle and of that which the runtime reported; 0 for none.
	Published int64  `json:"published,omitempty"`
	InForce   int64  `json:"inForce,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// CertificateExpires is when the certificate expires that was issued to the agent last; nil where none was.
	CertificateExpires *time.Time      `json:"certificateExpires,omitempty"`
	Kubernetes         string          `json:"kubernetes,omitempty"`
	Modules            []RuntimeModule `json:"modules,omitempty"`
	// Bundles are the last bundles, the newest first, where one runtime is asked for.
	Bundles []Bundle `json:"bundles,omitempty"`
}

// RuntimeModule is a module of one runtime.
type RuntimeModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is what runs, empty where that is unknown; Asked what was published, empty where the module is being
	// removed.
	Version string        `json:"version,omitempty"`
	Asked   string        `json:"asked,omitempty"`
	State   v1beta2.State `json:"state"`
	Message string        `json:"message,omitempty"`
	// Held says which rollout keeps a newer version from the runtime.
	Held string `json:"held,omitempty"`
}

// Module is a module in all runtimes.
type Module struct {
	Name string `json:"name"`
	// Channels are the versions by channel, as the catalog has them.
	Channels map[string]string `json:"channels,omitempty"`
	// Versions are sorted, the newest first.
	Versions []ModuleVersion `json:"versions,omitempty"`
}

// ModuleVersion is how many runtimes run a version, by state. Version is empty for runtimes of which it is unknown.
type ModuleVersion struct {
	Version string                `json:"version"`
	States  map[v1beta2.State]int `json:"states"`
}

// Rollout is a promotion on its way, or ended.
type Rollout struct {
	Name string `json:"name"`
	// Namespace is that of the Rollout, which whoever steers it names.
	Namespace string                 `json:"namespace"`
	Spec      v1alpha1.RolloutSpec   `json:"spec"`
	Status    v1alpha1.RolloutStatus `json:"status"`
	Active    bool                   `json:"active"`
}
