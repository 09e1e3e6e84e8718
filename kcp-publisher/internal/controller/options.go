package controller

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Options configures the controllers of a publisher.
type Options struct {
	// Namespace contains the Kymas and the catalog.
	Namespace string
	// Restricted lists the modules that require a kymaSelector to be visible.
	Restricted []string
	// Publish configures the Publisher. New sets OnRestored and DecideRemovals.
	Publish publish.Options
	// Changes tracks changes to several catalog objects that must be published together.
	Changes   *Changes
	KeyFolder KeyOptions
	// PollInterval is the interval at which a runtime's report is read. Reports of idle runtimes are read less often.
	PollInterval time.Duration
	// DeletionTimeout limits the time that a deleted Kyma waits for its runtime to remove all modules.
	DeletionTimeout time.Duration
	// Rules contains the fleet's configuration that does not change while the publisher runs.
	Rules      plan.Rules
	Signatures SignatureOptions
	// Git is the connection to the repository from which the control plane's objects are applied, or nil.
	Git Git
	// Share is this publisher's part of the Kymas.
	Share shard.Share
	// Remote configures the connection to the planner. It is nil if this publisher plans rollouts itself.
	Remote *RemoteOptions
	// SecretsNamespace is the namespace with the Secrets for runtimes. If it is empty, the publisher does not read
	// Secrets.
	SecretsNamespace string
	// ImagePullSecret is the Secret that all runtimes use to pull images. Its name is empty if none is configured.
	ImagePullSecret types.NamespacedName
	// Notify notifies a runtime's agent about a new bundle and returns immediately. It can be nil.
	Notify func(runtime string)
	// TrustAuthors makes the publisher apply all settings on Kymas. If it is false, the publisher applies restricted
	// settings only if an admission policy in the API server checks the authors' permissions.
	TrustAuthors bool
	// KymaEvents selects the Events to emit about runtimes. The default is AllEvents.
	KymaEvents KymaEvents
	// Limits contains the limits for removing modules without an operator's approval.
	Limits removal.Limits
	// Slimmer reduces the memory for cached Kymas and reports.
	Slimmer *Slimmer
	// Metrics counts the runtimes and modules of all shards in this process.
	Metrics *FleetMetrics
	// Concurrency is the maximum number of Kymas to reconcile concurrently.
	Concurrency int
}

// Git is the connection to the Git repository from which the control plane's objects are applied.
type Git interface {
	// Source returns the commit from which the objects were applied, or nil before a commit is known.
	Source() *bundle.Source
	// HoldReason returns the reason why publishing has stopped while a commit is only partially applied, or "".
	HoldReason() string
	// ComparedAt returns when the last successful comparison started, or zero. A comparison is successful if it finds
	// the newest commit completely applied in the control plane. RequestComparison requests a new comparison.
	ComparedAt() time.Time
	RequestComparison()
	// ApprovedAt returns the time at which the current commit approved the removal of a module from a Kyma. It
	// returns zero if the commit did not approve the removal.
	ApprovedAt(kyma types.UID, module string) time.Time
}

// KymaEvents is the value of a flag that selects the Events to emit about runtimes.
type KymaEvents string

// With AllEvents, the publisher emits all Events. With FailureEvents, it emits only Events about failures.
const (
	AllEvents     KymaEvents = "all"
	FailureEvents KymaEvents = "failures"
)

// ParseKymaEvents parses a flag value: all or failures.
func ParseKymaEvents(text string) (KymaEvents, error) {
	if e := KymaEvents(text); slices.Contains([]KymaEvents{AllEvents, FailureEvents}, e) {
		return e, nil
	}
	return "", fmt.Errorf("unknown value %q, must be %s or %s", text, AllEvents, FailureEvents)
}
