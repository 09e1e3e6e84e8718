package rollout

import (
	"strings"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// checkHolder compares the Holder, which uses only the Rollout object, with the decisions of the step that wrote the
// Rollout's status. Unlike the step, the Holder delays the promoted version until the publisher has published it.
func (w *world) checkHolder(newest *fleet.Rollout, step Step, facts []Runtime) {
	after := newest.DeepCopy()
	after.Status = step.Status
	holder := NewHolder(after)
	if (holder == nil) != (len(step.Decisions) == 0) {
		w.fail("%s: %s has a holder: %t, but %d decisions", newest.Name, step.Status.State, holder != nil,
			len(step.Decisions))
		return
	}
	for i, d := range step.Decisions {
		got, want := holder.HeldReason(&facts[i]), d.HeldReason
		if got == "" && want == "" || want == "" && d.Version == newest.Spec.To {
			continue
		}
		want, _, _ = strings.Cut(want, ": waiting for an agent")
		if got != want {
			w.fail("%s: %s is held in %s because of %q, but the Holder returns %q: %+v", newest.Name, facts[i].ID,
				step.Status.State, want, got, facts[i])
		}
	}
}
