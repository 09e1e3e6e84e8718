package plan

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// RecordFeatures returns the features that the agent reports, in the format of the Kyma's status.
func RecordFeatures(report bundle.Report) []string {
	list := make([]string, 0, len(report.Features))
	for _, f := range report.Features {
		list = append(list, string(f))
	}
	return list
}

// unsupportedFeatures returns the features that a runtime's agent does not support. It uses the newest report or,
// without a report, the Kyma's status. If the agent has never reported, it assumes that the agent supports all
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
// features that the removed settings require.
func SupportedRequest(request resolve.Request) (resolve.Request, []bundle.Feature) {
	var left []bundle.Feature
	request.Settings, left = request.Settings.Without(func(f bundle.Feature) bool {
		return !slices.Contains(request.Unsupported, f)
	})
	return request, left
}

// AgentOutdatedMessage returns a message that the bundle omits the features in left until the agent is upgraded.
func AgentOutdatedMessage(left []bundle.Feature) string {
	names := make([]string, 0, len(left))
	for _, f := range left {
		names = append(names, string(f))
	}
	return resolve.OutdatedMessage + strings.Join(names, ", ") + ": the bundle omits them until the agent is upgraded"
}
