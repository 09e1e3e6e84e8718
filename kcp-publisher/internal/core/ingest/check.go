package ingest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/kymaschema"
)

// Check returns an error if the API server would reject a Kyma status with the report's data. The error names the
// invalid field.
func Check(schema *kymaschema.Schema, report bundle.Report) error {
	var spec *v1beta2.KymaSpec
	if report.Kyma != nil {
		spec = &report.Kyma.Spec
	}
	modules := make([]v1beta2.ModuleStatus, 0, len(report.Modules))
	for _, m := range report.Modules {
		modules = append(modules, v1beta2.ModuleStatus{
			Name: m.Name, Channel: m.Channel, Version: m.Version, State: m.State, Message: m.Message,
			Manifest: m.Manifest, Resource: m.Resource,
			Maintenance: m.Maintenance,
		})
	}
	return schema.Check(spec, modules)
}

// RefusedStatus returns the status to write after the API server rejected a status. It copies the previous status,
// takes the published bundle from the rejected status, and adds a condition with the API server's error.
func RefusedStatus(
	before, refused v1beta2.KymaStatus, generation int64, cause error, now time.Time,
) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	if refused.Runtime != nil {
		if after.Runtime == nil {
			after.Runtime = &v1beta2.RuntimeStatus{}
		}
		after.Runtime.ID, after.Runtime.Published, after.Runtime.History = refused.Runtime.ID,
			refused.Runtime.Published, refused.Runtime.History
	}
	why := collectReasons(after)
	why.Report = v1beta2.Reason(refusal.Other)
	if after.Runtime != nil {
		after.Runtime.Reasons = why
	}
	set := conditionSetter(&after.Conditions, generation, now)
	set(v1beta2.ConditionReporting, v1beta2.ReasonReportRefused,
		"the runtime's data results in a status that the API server refuses: "+
			bundle.Bounded(cause.Error(), bundle.MaxMessageBytes), false)
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); ready == nil ||
		ready.Reason != v1beta2.ReasonPublishFailed {
		set(v1beta2.ConditionReady, v1beta2.ReasonNotReady, readyMessage(after), false)
	}
	after.State = worseState(before.State, v1beta2.StateWarning)
	after.UpdateLastOperation(before, readyMessage(after), now)
	return after
}
