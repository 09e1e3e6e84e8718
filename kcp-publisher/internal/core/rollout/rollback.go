package rollout

import (
	"cmp"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// describeUnreturned sets a rolled-back rollout's message to the reason for the rollback, and adds the runtimes that
// cannot return to their last version.
func (p *plan) describeUnreturned() {
	p.status.RollbackReason = cmp.Or(p.status.RollbackReason, p.status.Message)
	p.status.Message = p.status.RollbackReason
	if len(p.unreturned) > 0 {
		p.status.Message += "; the last version cannot be installed in " + joinListed(p.unreturned) +
			": create or correct the module's ModuleReleaseMeta and ModuleTemplate"
	}
}

// addUnreturned adds a runtime to the message if the publisher cannot resolve the version that a rollback must restore
// in the runtime.
func (p *plan) addUnreturned(m *member, r *Runtime) {
	version := r.UnresolvedVersion
	if m.mustReturn && r.Version == p.spec.To && version != "" && (IsRemoval(p.spec) || version == p.spec.From) {
		p.unreturned = append(p.unreturned, r.ID+" ("+bundle.Bounded(r.Message, maxReasonBytes)+")")
	}
}
