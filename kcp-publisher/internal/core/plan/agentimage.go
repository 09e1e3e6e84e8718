package plan

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// MaxAgentRollbacks limits the number of agent images from which one agent may return to an older image.
const MaxAgentRollbacks = 20

// agentRollbackFrom returns the digests of the agent images from which a Kyma's agent may return to an older image.
// Invalid entries of the annotation are ignored.
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
