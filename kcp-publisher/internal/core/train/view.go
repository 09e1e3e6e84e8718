package train

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// View is the state of a PromotionPolicy in a format for display.
type View struct {
	Namespace string `json:"namespace"`
	Policy    string `json:"policy"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`
	// Versions contains each version once, with the last channel that has it.
	Versions []Position `json:"versions"`
}

// Position is a version of a module and the last channel in the policy that has it.
type Position struct {
	Module  string    `json:"module"`
	Version string    `json:"version"`
	Channel string    `json:"channel"`
	Since   time.Time `json:"since"`
	// To is the next channel. It is empty if Channel is the last one.
	To      string              `json:"to,omitempty"`
	Reason  v1alpha1.WaitReason `json:"reason"`
	Message string              `json:"message,omitempty"`
	Arrival *time.Time          `json:"arrival,omitempty"`
}

// NewView returns the View of a PromotionPolicy, computed from the policy's status.
func NewView(p *v1alpha1.PromotionPolicy) View {
	view := View{
		Namespace: p.Namespace,
		Policy:    p.Name,
		Message:   "the publisher has not evaluated the policy",
		Versions:  []Position{},
	}
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		view.Ready, view.Message = ready.Status == metav1.ConditionTrue, ready.Message
		if ready.Reason == v1alpha1.PolicyEvaluated {
			view.Message = ""
		}
	}
	for _, m := range p.Status.Modules {
		for _, v := range m.Versions {
			if v.Reason != v1alpha1.WaitPromoted {
				view.Versions = append(view.Versions, newPosition(p, m.Name, v))
			}
		}
	}
	return view
}

func newPosition(p *v1alpha1.PromotionPolicy, module string, v v1alpha1.TrainVersion) Position {
	at := Position{
		Module: module, Version: v.Version, Channel: v.Channel, Since: v.Since.UTC(), Reason: v.Reason,
		Message: v.Message,
	}
	for i, c := range p.Spec.Channels {
		if c.Name == v.Channel && i+1 < len(p.Spec.Channels) {
			at.To = p.Spec.Channels[i+1].Name
		}
	}
	if v.Arrival != nil {
		at.Arrival = new(v.Arrival.UTC())
	}
	return at
}
