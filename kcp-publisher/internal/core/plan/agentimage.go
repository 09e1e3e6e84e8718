package plan

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// MaxAgentRollbacks limits the number of agent images that a Kyma's annotation can list. The agent may roll back from
// these images.
const MaxAgentRollbacks = 20

// agentRollbackFrom returns the agent images from which the Kyma's agent may roll back. It ignores invalid entries of
// the Kyma's annotation.
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
