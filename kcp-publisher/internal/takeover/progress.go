package takeover

import (
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Progress is the progress of one Kyma's takeover.
type Progress struct {
	Kyma    string        `json:"kyma"`
	Runtime string        `json:"runtime"`
	Phase   string        `json:"phase"`
	State   v1beta2.State `json:"state,omitempty"`
	// Adopted lists the modules that the agent has adopted. Waiting lists the modules that it has not adopted yet.
	Adopted []string `json:"adopted,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	// Removed lists lifecycle-manager's objects that the agent removed from the runtime.
	Removed []string `json:"removed,omitempty"`
	// Next is the operator's next step, or the event that the takeover waits for.
	Next string `json:"next"`
}

// ProgressOf returns the progress of a Kyma's takeover.
func ProgressOf(kyma *v1beta2.Kyma) Progress {
	s := Progress{Kyma: kyma.Name, Runtime: plan.RuntimeID(kyma), Phase: Phase(kyma), State: kyma.Status.State}
	if r := kyma.Status.Runtime; r != nil && r.Takeover != nil && s.Phase != PhaseNone {
		for _, m := range r.Takeover.Modules {
			switch {
			case m.Adopted:
				s.Adopted = append(s.Adopted, m.Name)
			case !m.Unmanaged:
				s.Waiting = append(s.Waiting, m.Name)
			}
		}
		s.Removed = r.Takeover.Removed
	}
	s.Next = nextStep(kyma, s.Phase)
	return s
}

func nextStep(kyma *v1beta2.Kyma, phase string) string {
	switch phase {
	case PhaseNone:
		if isManaged(kyma) {
			return "managed by this publisher"
		}
		return "managed by lifecycle-manager"
	case PhaseReturn:
		return "the runtime has released the modules: run `takeover abort` until lifecycle-manager manages all " +
			"Manifests"
	case PhaseFinished:
		return "finished; once lifecycle-manager is uninstalled, `takeover finish --lifecycle-manager-is-gone` " +
			"removes the labels"
	case string(bundle.TakeoverAdopt):
		if why := UnreadyReason(kyma); why != "" {
			return why
		}
		return "all modules are adopted: run `takeover finish`, or `takeover abort` to return them"
	case string(bundle.TakeoverClean):
		return awaitedEvent(kyma, bundle.TakeoverClean, "finish")
	case string(bundle.TakeoverRelease):
		return awaitedEvent(kyma, bundle.TakeoverRelease, "abort")
	}
	return fmt.Sprintf("annotation %s is invalid, must be adopt, clean or release", v1beta2.AnnotationTakeoverPhase)
}

// awaitedEvent describes the event that ends a takeover phase. command is the subcommand that requested the phase.
func awaitedEvent(kyma *v1beta2.Kyma, phase bundle.TakeoverPhase, command string) string {
	if HasCompleted(kyma, phase) {
		return fmt.Sprintf("the runtime has completed the phase: run `takeover %s` again", command)
	}
	if s := kyma.Status.Runtime; s != nil && s.Takeover != nil && s.Takeover.Message != "" {
		return "the runtime reports: " + s.Takeover.Message
	}
	return "waiting for the runtime's report"
}
