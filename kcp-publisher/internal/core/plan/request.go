package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/disclosure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// Request returns the module request for a Kyma's runtime: the requested modules, and the modules that the runtime
// still has to remove. report is the newest report or nil. Request returns an error if the Kyma's annotations are
// invalid.
func (r Rules) Request(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) (resolve.Request, error) {
	request, err := parseRequest(kyma)
	request.Settings, request.Watchers, request.CopiedLabels = r.Settings, r.Watchers, r.copiedLabels(kyma)
	if err != nil && !request.IsDeleting {
		return request, err
	}
	if request.Maintenance, err = r.Maintenance.Schedule(kyma); err != nil && !request.IsDeleting {
		return request, err
	}
	request.Settings.Autonomy = r.autonomySetting(kyma)
	if image, own := kyma.Annotations[v1beta2.AnnotationAgentImage]; own {
		request.Settings.Agent = image
	}
	if request.Settings.Details, err = ReportDetails(kyma); err != nil && !request.IsDeleting {
		return request, err
	}
	if request.Settings.CheckRun, err = parseCheckRun(kyma); err != nil && !request.IsDeleting {
		return request, err
	}
	switch err := request.Settings.Check(); {
	case err != nil && request.IsDeleting:
		request.Settings = r.Settings // invalid annotations must not block the Kyma's deletion
	case err != nil:
		return request, reason.Errorf(reason.AnnotationInvalid, "annotations: %w", err)
	}
	if request.Values, err = parseValues(kyma); err != nil && !request.IsDeleting {
		return request, err
	}
	request.OmitsCatalog = !canRequest(kyma) || kyma.Annotations[v1beta2.AnnotationSyncCatalog] == v1beta2.False
	if request.OmitsSeedModules && !r.IsOffline && canRequest(kyma) {
		// The runtime's first report will contain a Kyma without modules, so the agent must not install any before.
		request.Requested.Modules = nil
	}
	request.RemovedModules, request.RemovedVersions = removedModules(request.Requested, report)
	request.Versions = minimumVersions(request.Requested, kyma.Status.Runtime, report)
	request.RunningVersions = runningVersions(kyma.Status.Runtime, report)
	request.Unsupported = unsupportedFeatures(kyma.Status.Runtime, report)
	return request, setTakeover(&request, kyma)
}

func setTakeover(request *resolve.Request, kyma *v1beta2.Kyma) error {
	asked, err := phase.NewInput(kyma)
	request.Takeover, request.Inherited, request.RequestUnknown = asked.Phase, asked.Inherited, asked.Unheard
	if asked.Unheard {
		request.Requested.Modules = nil
	}
	return err
}

// grantedVersions returns the module versions of a runtime: the published versions in the status, and the reported
// versions of modules that are not in the status. If the status is outdated or the runtime chose the version itself, a
// newer reported version takes precedence over the published version.
func grantedVersions(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	versions := map[string]string{}
	var published *v1beta2.PublishedBundle
	if status != nil && status.Published != nil {
		published = status.Published
		maps.Copy(versions, published.Versions)
	}
	if report == nil {
		return versions
	}
	believed := published != nil && (hasNewerBundle(report, published) || isRecordOutdated(status, report))
	for _, m := range report.Modules {
		// Wanted takes precedence: an agent refuses a version that is older than the version in its Manifest, even if
		// the version in the Manifest failed.
		has := cmp.Or(m.Wanted, m.Version)
		known, ok := versions[m.Name]
		if has != "" && (!ok || (believed || slices.Contains(report.Decided, m.Name)) && bundle.IsOlder(known, has)) {
			versions[m.Name] = has
		}
	}
	return versions
}

// runningVersions returns the versions of the modules that still run an older version because the published version
// failed. It returns nil if the report is not about the published bundle.
func runningVersions(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	if status == nil || status.Published == nil || report == nil ||
		!report.HasApplied(digest.Digest(status.Published.Digest)) {
		return nil
	}
	versions := map[string]string{}
	for _, m := range report.Modules {
		if m.State == v1beta2.StateError && !m.Maintenance && m.Version != "" &&
			bundle.IsOlder(m.Version, status.Published.Versions[m.Name]) {
			versions[m.Name] = m.Version
		}
	}
	return versions
}

// hasNewerBundle reports whether the runtime has applied a newer bundle than the one in the Kyma's status.
func hasNewerBundle(report *bundle.AcceptedReport, published *v1beta2.PublishedBundle) bool {
	o := report.Observed
	return o != nil && (o.Epoch > published.Epoch || o.Epoch == published.Epoch && o.Sequence > published.Sequence)
}

// isRecordOutdated reports whether the runtime is ahead of the Kyma's status, although it has not applied a newer
// bundle than the one in the status. There are two cases, which a restore of the control plane from a backup can cause:
//   - The runtime refused the bundle in the status, because it already has newer module versions or a different key.
//   - The agent has modules but no bundle, because it lost its state together with its key.
func isRecordOutdated(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) bool {
	if status == nil || status.Published == nil {
		return false
	}
	if report.Observed == nil {
		return len(report.Modules) > 0
	}
	return slices.ContainsFunc(report.Refused, func(r bundle.RefusedBundle) bool {
		return (r.Reason == refusal.Downgrade || r.Reason == refusal.WrongCluster) &&
			r.Digest.String() == status.Published.Digest
	})
}

// minimumVersions returns, for each requested or published module, the lowest version that the next bundle can contain
// without a rollback.
func minimumVersions(
	requested v1beta2.KymaSpec, status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport,
) map[string]string {
	versions := grantedVersions(status, report)
	maps.DeleteFunc(versions, func(name, _ string) bool {
		published := status != nil && status.Published != nil && status.Published.Versions[name] != ""
		return !published && !slices.ContainsFunc(requested.Modules, func(module v1beta2.Module) bool {
			return module.Name == name
		})
	})
	if len(versions) == 0 {
		return nil
	}
	return versions
}

// parseRequest returns the module request of a Kyma without the fleet's settings. It returns an error if the Kyma's
// pinned versions are invalid.
func parseRequest(kyma *v1beta2.Kyma) (resolve.Request, error) {
	request := resolve.Request{Labels: kyma.Labels, IsDeleting: !kyma.DeletionTimestamp.IsZero()}
	request.IsControlPlane = kyma.Labels[v1beta2.LabelControlPlane] == v1beta2.True
	request.OmitsSeedModules = kyma.Annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True
	if own := ownRequest(kyma); own != nil {
		request.Requested = *own
		// If a user deletes the Kyma in the runtime, the agent creates it again from the seed. Use the last reported
		// spec as the seed.
		request.Seed, request.OmitsSeedModules = *own, false
		return request, nil
	}
	spec, err := kyma.RequestedSpec()
	request.Requested, request.Seed = spec, spec
	return request, reason.With(reason.PinsInvalid, err)
}

// ownRequest returns the spec of the Kyma in the runtime, as last reported. It returns nil if the publisher does not
// use the runtime's requests.
func ownRequest(kyma *v1beta2.Kyma) *v1beta2.KymaSpec {
	if s := kyma.Status.Runtime; s != nil && s.Requested != nil && canRequest(kyma) {
		return &s.Requested.Spec
	}
	return nil
}

// KnownRequest returns the spec that requests the modules of a Kyma's runtime: the spec of the Kyma in the runtime, as
// last reported, or the control plane's spec if the runtime cannot request modules. It returns nil if the runtime can
// request modules and has not reported yet.
func KnownRequest(kyma *v1beta2.Kyma) *v1beta2.KymaSpec {
	if !canRequest(kyma) {
		return &kyma.Spec
	}
	return ownRequest(kyma)
}

func canRequest(kyma *v1beta2.Kyma) bool { return kyma.Labels[v1beta2.LabelSync] != v1beta2.False }

// removedModules returns the modules that the runtime reports as installed and that the Kyma does not request. It also
// returns their installed versions.
func removedModules(
	requested v1beta2.KymaSpec, report *bundle.AcceptedReport,
) (all []v1beta2.Module, versions map[string]string) {
	if report == nil {
		return nil, nil
	}
	versions = map[string]string{}
	for _, m := range report.Modules {
		if m.Channel != "" &&
			!slices.ContainsFunc(requested.Modules, func(module v1beta2.Module) bool { return module.Name == m.Name }) {
			all = append(all, v1beta2.Module{Name: m.Name, Channel: m.Channel, Managed: true})
			versions[m.Name] = cmp.Or(m.Wanted, m.Version)
		}
	}
	return all, versions
}

// RecordFeatures returns the features that the agent reports, in the format of the Kyma's status.
func RecordFeatures(report bundle.Report) []string {
	list := make([]string, 0, len(report.Features))
	for _, f := range report.Features {
		list = append(list, string(f))
	}
	return list
}

// unsupportedFeatures returns the features that a runtime's agent does not support, from the newest report or, without
// a report, from the Kyma's status. If the agent has never reported, unsupportedFeatures assumes that it supports all
// features.
func unsupportedFeatures(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) []bundle.Feature {
	var has []string
	switch {
	case report != nil:
		has = RecordFeatures(report.Report)
	case status != nil && status.Observed != nil:
		has = status.Observed.Features
	default:
		return nil
	}
	return slices.DeleteFunc(bundle.AllFeatures(), func(f bundle.Feature) bool {
		return slices.Contains(has, string(f))
	})
}

// SupportedRequest returns the request without the settings that the agent does not support. It also returns the
// features that these settings require.
func SupportedRequest(request resolve.Request) (resolve.Request, []bundle.Feature) {
	var left []bundle.Feature
	request.Settings, left = request.Settings.Without(func(f bundle.Feature) bool {
		return !slices.Contains(request.Unsupported, f)
	})
	return request, left
}

// AgentOutdatedMessage returns a message that lists features. The bundle omits these features until the agent is
// upgraded.
func AgentOutdatedMessage(left []bundle.Feature) string {
	names := make([]string, 0, len(left))
	for _, f := range left {
		names = append(names, string(f))
	}
	return resolve.OutdatedMessage + strings.Join(names, ", ") + ": the bundle omits them until the agent is upgraded"
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

// autonomySetting disables autonomy for a runtime that cannot request modules. Otherwise, the agent would apply the
// request in the runtime's own Kyma.
func (r Rules) autonomySetting(kyma *v1beta2.Kyma) string {
	if !canRequest(kyma) {
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
