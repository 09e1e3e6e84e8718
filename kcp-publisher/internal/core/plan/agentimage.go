package plan

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// MaxAgentRollbacks limits the number of agent images in a Kyma's annotation. If the runtime's agent has one of these
// images, it can roll back to an older image.
const MaxAgentRollbacks = 20

// agentRollbackFrom returns the agent images from which the runtime's agent can roll back to an older image. It ignores
// invalid entries in the Kyma's annotation.
func (r Rules) agentRollbackFrom(kyma *v1beta2.Kyma) []string {
	from := slices.Clone(r.AgentRollbackFrom)
	for entry := range strings.SplitSeq(kyma.Annotations[v1beta2.AnnotationAgentRollbackFrom], ",") {
		entry = strings.TrimSpace(entry)
		if len(from) < MaxAgentRollbacks && digest.Digest(entry).Validate() == nil && !slices.Contains(from, entry) {
			from = append(from, entry)
		}
	}
	return from
}
