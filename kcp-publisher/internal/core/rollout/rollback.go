package rollout

import (
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// unreturnedIntro separates two parts of a rollout's message: the reason for the rollback, and the runtimes that cannot
// return to their last version.
const unreturnedIntro = "; the last version cannot be installed in "

// describeUnreturned updates the end of a rollout's message, which lists the runtimes that cannot return to their last
// version. It removes the list when the problem is solved.
func (p *plan) describeUnreturned() {
	reason, _, _ := strings.Cut(p.status.Message, unreturnedIntro)
	p.status.Message = reason
	if len(p.unreturned) > 0 {
		p.status.Message += unreturnedIntro + joinListed(p.unreturned) +
			": create or correct the module's ModuleReleaseMeta and ModuleTemplate"
	}
}

// addUnreturned adds a runtime to the message if the publisher cannot resolve the version to which a rollback returns
// the runtime.
func (p *plan) addUnreturned(m *member, r *Runtime) {
	version := r.UnresolvedVersion
	if m.isSelected && r.Version == p.spec.To && version != "" && (IsRemoval(p.spec) || version == p.spec.From) {
		p.unreturned = append(p.unreturned, r.ID+" ("+bundle.Bounded(r.Message, maxReasonBytes)+")")
	}
}
