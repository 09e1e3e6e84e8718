// Package plan decides the content of each runtime's bundle. Its inputs are Kymas, reports, the catalog, rollouts, the
// rules of the fleet, and the time.
//
// The package does not perform I/O. It converts a Kyma to a request, and package resolve converts the request to
// modules. The commands `run`, `publish` and `diff` use this package.
package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/disclosure"
)

// Rules contains the settings that apply to all runtimes of a fleet.
type Rules struct {
	// Settings contains the default settings of the agents. A Kyma's annotations override them.
	Settings bundle.Settings
	// AgentRollbackFrom lists the digests of agent images. An agent with one of these images can roll back to an older
	// image.
	AgentRollbackFrom []string
	// KymaLabels lists additional labels that the publisher copies from a Kyma in the control plane to the Kyma in the
	// runtime.
	KymaLabels []string
	// Watchers contains the valid Watcher objects, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance configures the maintenance windows for module upgrades that cause downtime.
	Maintenance Maintenance
	// SilenceTimeout is the time without a report after which a runtime counts as silent. A Kyma's annotation overrides
	// it.
	SilenceTimeout time.Duration
	// Root is the newest root of trust.
	Root trust.Root
	// Source is the Git commit from which the control plane's objects were applied, or nil.
	Source *bundle.Source
	// IsChanging is true while a change to the control plane's objects is in progress, for example while a Git commit
	// is applied. During this time, the publisher publishes only the last bundles of deleted Kymas.
	IsChanging bool
	// IsOffline is true if no control plane exists. Runtimes then do not report, so each of them may have modules.
	IsOffline bool
}

// IsSkipped reports whether a Kyma is suspended by the label skip-reconciliation. A deleted Kyma or a Kyma in a
// takeover from lifecycle-manager is never skipped.
//
// Source: lifecycle-manager #3097.
func IsSkipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}

// exampleWindows is a valid value of the annotation for maintenance windows.
const exampleWindows = `[{"days":["Sat"],"begin":"02:00:00Z","end":"06:00:00Z"}]`

// Maintenance configures the maintenance windows for module upgrades that cause downtime.
type Maintenance struct {
	// Policy selects the windows of a runtime by its Kyma's labels. It can be nil.
	Policy *window.Policy
	// Minimum is the shortest time between the start of an upgrade and the end of its window.
	Minimum time.Duration
}

// Schedule returns the maintenance schedule of a Kyma's runtime, or nil if the runtime does not have one. Windows in
// the Kyma's annotation replace those from the policy. Schedule returns an error if the annotation is invalid.
func (m Maintenance) Schedule(kyma *v1beta2.Kyma) (*window.Schedule, error) {
	schedule, err := m.windows(kyma)
	if schedule == nil || err != nil {
		return nil, err
	}
	if kyma.Spec.SkipMaintenanceWindows {
		return nil, nil
	}
	switch value := kyma.Annotations[v1beta2.AnnotationEarlyUpgrades]; value {
	case "", v1beta2.False:
	case v1beta2.True:
		schedule.Early = true
	default:
		return nil,
			reason.Errorf(reason.AnnotationInvalid, "annotation %s: %q must be true or false",
				v1beta2.AnnotationEarlyUpgrades, bundle.Bounded(value, bundle.MaxMessageBytes))
	}
	return schedule, nil
}

func (m Maintenance) windows(kyma *v1beta2.Kyma) (*window.Schedule, error) {
	if text, own := kyma.Annotations[v1beta2.AnnotationMaintenanceWindows]; own {
		windows, err := window.ParseWindows([]byte(text))
		if err != nil {
			return nil,
				reason.Errorf(reason.AnnotationInvalid, "annotation %s: %w: must be a JSON list such as %s",
					v1beta2.AnnotationMaintenanceWindows, err, exampleWindows)
		}
		return &window.Schedule{Windows: windows, Minimum: metav1.Duration{Duration: m.Minimum}}, nil
	}
	if m.Policy == nil {
		return nil, nil
	}
	schedule := m.Policy.For(window.Runtime{
		Plan: kyma.Labels[v1beta2.LabelPlan], Region: kyma.Labels[v1beta2.LabelRegion],
		PlatformRegion:  kyma.Labels[v1beta2.LabelPlatformRegion],
		GlobalAccountID: kyma.Labels[v1beta2.LabelGlobalAccountID],
	}, m.Minimum)
	return &schedule, nil
}

// MaxAgentRollbacks limits the number of agent images in a Kyma's annotation. If the runtime's agent has one of these
// images, it can roll back to an older image.
const MaxAgentRollbacks = 20

// agentRollbackFrom returns the agent images from which the runtime's agent can roll back to an older image. It ignores
// invalid entries in the Kyma's annotation.
func (r Rules) agentRollbackFrom(kyma *v1beta2.Kyma) []string {
	from := slices.Clone(r.AgentRollbackFrom)
	for entry := range strings.SplitSeq(kyma.Annotations[v1beta2.AnnotationAgentRollbackFrom], ",") {
		entry = strings.TrimSpace(entry)
		if len(from) < MaxAgentRollbacks && digest.Digest(entry).Validate() == nil && !slices.Contains(from, entry) {
			from = append(from, entry)
		}
	}
	return from
}

// maxRequestBytes limits the length of the annotation that requests a reconcile. The CRD has the same limit for the
// status field to which the publisher copies the value.
const maxRequestBytes = 64

// ReconcileRequest returns the value of the annotation that requests a reconcile. It returns "" if the publisher has
// already handled this request.
func ReconcileRequest(kyma *v1beta2.Kyma) string {
	value := bundle.Bounded(kyma.Annotations[v1beta2.AnnotationReconcileRequested], maxRequestBytes)
	if value == kyma.Status.LastHandledReconcileAt {
		return ""
	}
	return value
}

// parseValues parses the Kyma annotation with the runtime's named values.
func parseValues(kyma *v1beta2.Kyma) (bundle.Values, error) {
	found, err := bundle.ParseValues(kyma.Annotations[v1beta2.AnnotationValues])
	if err != nil {
		return nil, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %w", v1beta2.AnnotationValues, err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if secret, is := disclosure.FindSecret(found[name], name, nil); is {
			return nil,
				reason.Errorf(reason.AnnotationInvalid,
					"annotation %s: %s looks like %s, but bundles are not encrypted: use a Secret",
					v1beta2.AnnotationValues, name, secret.Resembles)
		}
	}
	return found, nil
}

func (r Rules) copiedLabels(kyma *v1beta2.Kyma) map[string]string {
	var labels map[string]string
	for _, key := range r.KymaLabels {
		value, is := kyma.Labels[key]
		if !is {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels
}

// autonomySetting disables autonomy for a runtime that cannot request modules, because its agent would otherwise apply
// the request in its own Kyma.
func (r Rules) autonomySetting(kyma *v1beta2.Kyma) string {
	if kyma.Labels[v1beta2.LabelSync] == v1beta2.False {
		return ""
	}
	if own, is := kyma.Annotations[v1beta2.AnnotationAutonomy]; is {
		return own
	}
	return r.Settings.Autonomy
}

// ReportDetails returns the details that a Kyma requests for its runtime's reports, sorted. It returns an error for an
// unknown detail.
func ReportDetails(kyma *v1beta2.Kyma) ([]bundle.Detail, error) {
	var all []bundle.Detail
	for name := range strings.FieldsFuncSeq(kyma.Annotations[v1beta2.AnnotationReportDetails],
		func(r rune) bool { return r == ',' || r == ' ' }) {
		detail := bundle.Detail(name)
		if !slices.Contains(bundle.AllDetails(), detail) {
			return nil, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %s is not one of %v",
				v1beta2.AnnotationReportDetails, bundle.Quote(name, bundle.MaxVersionBytes), bundle.AllDetails())
		}
		all = append(all, detail)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func parseCheckRun(kyma *v1beta2.Kyma) (*bundle.CheckRun, error) {
	run, err := bundle.ParseCheckRun(kyma.Annotations[v1beta2.AnnotationCheckRun])
	if err != nil {
		return nil, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %w", v1beta2.AnnotationCheckRun, err)
	}
	return run, nil
}

const (
	// carriedSilence is the default silence timeout of a runtime if an operator carries its reports by hand.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is the maximum silence timeout in an annotation. It also limits the validity of bundles that an
	// operator carries by hand, because an attacker could withhold a newer bundle until the old one expires.
	maxCarriedSilence = 366 * 24 * time.Hour
)

func isCarried(kyma *v1beta2.Kyma) bool {
	_, carried, err := Rules{}.SilenceTimeoutFor(kyma)
	return carried && err == nil
}

// SilenceTimeoutFor returns the time without a report after which a Kyma's runtime counts as silent. carried is true if
// an operator carries bundles and reports by hand. If the duration in the Kyma's annotation is invalid, it returns the
// default and an error.
func (r Rules) SilenceTimeoutFor(kyma *v1beta2.Kyma) (silence time.Duration, carried bool, err error) {
	annotation := kyma.Annotations[v1beta2.AnnotationCarried]
	switch annotation {
	case "", v1beta2.False:
		return r.SilenceTimeout, false, nil
	case v1beta2.True:
		return carriedSilence, true, nil
	}
	allowed, err := time.ParseDuration(annotation)
	if err != nil || allowed <= 0 || allowed > maxCarriedSilence {
		return r.SilenceTimeout, false,
			reason.Errorf(reason.AnnotationInvalid,
				"annotation %s: %q must be true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried,
				annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}

// revokedKeys returns the thumbprints of the agent keys that the Kyma's annotation revokes.
func revokedKeys(kyma *v1beta2.Kyma) []string {
	return strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
}
