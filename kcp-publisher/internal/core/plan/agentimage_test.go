package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestFleetAndKymaAllowAgentRollbacks(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	kyma := &v1beta2.Kyma{}
	kyma.Annotations = map[string]string{
		v1beta2.AnnotationAgentRollbackFrom: b + ", latest," + a + ",," + b + ",sha256:short",
	}
	rules := Rules{AgentRollbackFrom: []string{a}}
	if got := rules.agentRollbackFrom(kyma); !slices.Equal(got, []string{a, b}) {
		t.Errorf("got digests %s, want %s and %s", got, a, b)
	}
	if len(rules.AgentRollbackFrom) != 1 {
		t.Error("agentRollbackFrom modified the fleet's rules")
	}
}
