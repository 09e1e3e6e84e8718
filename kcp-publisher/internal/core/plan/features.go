package plan

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// baseline is what every agent understands: it tells an agent that lists no features from one that is not known.
const baseline = "baseline"

// RecordFeatures returns what a report says of features as a status remembers it.
func RecordFeatures(report bundle.Report) []string {
	list := []string{baseline}
	for _, f := range report.Features {
		list = append(list, string(f))
	}
	return list
}

// understood returns what a runtime's agent understands by its newest report, or by what is remembered of it; known is false where nothing is.
func understood(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) (list []bundle.Feature, known bool) {
	if report != nil {
		return report.Features, true
	}
	if status == nil || status.Observed == nil || len(status.Observed.Features) == 0 {
		return nil, false
	}
	for _, name := range status.Observed.Features {
		if name != baseline {
			list = append(list, bundle.Feature(name))
		}
	}
	return list, true
}

// lacks returns the features of this version that a runtime's agent does not understand. Nothing is known to be lacking before it has reported: an
// agent that refuses its first bundle reports as well.
func lacks(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) []bundle.Feature {
	list, known := understood(status, report)
	if !known {
		return nil
	}
	return slices.DeleteFunc(bundle.AllFeatures(), func(f bundle.Feature) bool { return slices.Contains(list, f) })
}

// Understood returns the request as the runtime's agent understands it, and what is left out of it. An agent that lists no features keeps what its last
// bundle brought, unless it refused that one as malformed: it may be as old as the baseline, or one from right before features were listed.
func Understood(request resolve.Request, last *Published, r Runtime) (resolve.Request, []bundle.Feature) {
	if last != nil && slices.Contains(request.Lacks, bundle.FeatureCritical) && !slices.Contains(r.Malformed, last.Digest) {
		had := last.State.Features()
		request.Lacks = slices.DeleteFunc(slices.Clone(request.Lacks), func(f bundle.Feature) bool { return slices.Contains(had, f) })
	}
	if len(request.Lacks) == 0 {
		return request, nil
	}
	var left []bundle.Feature
	request.Settings, left = request.Settings.Without(func(f bundle.Feature) bool { return !slices.Contains(request.Lacks, f) })
	return request, left
}

// refusals takes the bundles that a report refuses because the agent cannot read them.
func (r *Runtime) refusals(report *bundle.AcceptedReport) {
	for _, refused := range report.Refused {
		if refused.Reason == refusal.Malformed || refused.Reason == refusal.UnsupportedFeature {
			r.Malformed = append(r.Malformed, refused.Digest)
		}
	}
}

// AgentOutdated says which features an agent does not understand, and what to do.
func AgentOutdated(left []bundle.Feature) string {
	names := make([]string, 0, len(left))
	for _, f := range left {
		names = append(names, string(f))
	}
	return resolve.Outdated + strings.Join(names, ", ") + ": it is left out of the bundle until the agent is upgraded"
}
