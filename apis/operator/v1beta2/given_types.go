package v1beta2

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GivenVersion records a module version that a rollout assigned to a runtime, or a module that a rollout removed.
type GivenVersion struct {
	// Rollout is the name of the Rollout.
	Rollout string `json:"rollout"`
	// Time is the time when the first bundle with the version was issued.
	Time metav1.Time `json:"time"`
	// StartedAt is the time when the runtime could first install the version, if that is later than time. It is the
	// time of the runtime's first report after its maintenance window opened, or after the runtime had been silent.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// State is the module's state in this version, from the last report that refers to both the latest bundle and the
	// Kyma's current generation. Empty if no such report was received.
	// +optional
	State State `json:"state,omitempty"`
	// Ready is true once a report that refers to the latest bundle and the Kyma's current generation contained the
	// state Ready for the module.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Checks lists the results of the version's checks, sorted by name, from reports that refer to the latest bundle
	// and the Kyma's current generation. A check's value and message change only together with its result, and once
	// when the wave ends: see waveEnded.
	// +optional
	// +kubebuilder:validation:MaxItems:=10
	// +listType=map
	// +listMapKey=name
	Checks []CheckOutcome `json:"checks,omitempty"`
	// WaveEnded is true once the runtime's wave was proven or has failed, and Checks has its final values.
	// +optional
	WaveEnded bool `json:"waveEnded,omitempty"`
	// RemovedVersion is the version that the runtime had before the rollout removed the module. Unset if the rollout did
	// not remove the module. RemovedChannel is the module's channel, or empty if the module was mandatory.
	// +optional
	RemovedVersion string `json:"removedVersion,omitempty"`
	// +optional
	RemovedChannel string `json:"removedChannel,omitempty"`
}

// Began returns the time from which the rollout's deadline counts for this runtime: StartedAt, or Time if StartedAt is
// unset or earlier.
func (g GivenVersion) Began() time.Time {
	if g.StartedAt != nil && g.StartedAt.After(g.Time.Time) {
		return g.StartedAt.Time
	}
	return g.Time.Time
}
