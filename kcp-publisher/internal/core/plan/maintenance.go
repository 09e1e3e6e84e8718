package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

// exampleWindows is a valid value of the annotation for maintenance windows.
const exampleWindows = `[{"days":["Sat"],"begin":"02:00:00Z","end":"06:00:00Z"}]`

// Maintenance configures the maintenance windows for module upgrades that cause downtime.
type Maintenance struct {
	// Policy selects the windows of a runtime by its Kyma's labels. It can be nil.
	Policy *window.Policy
	// Minimum is the time for which a window must still be open when an upgrade starts.
	Minimum time.Duration
}

// Schedule returns the maintenance schedule of a Kyma's runtime, or nil if the runtime has none. If the Kyma's
// annotation contains windows, they replace those of the policy. Schedule returns an error if the annotation is
// invalid.
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
