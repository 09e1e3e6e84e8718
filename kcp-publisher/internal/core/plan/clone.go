package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// CheckClone returns an error if two agents use the same key, for example because the cluster was copied. The publisher
// then publishes no new bundles for the runtime.
func CheckClone(kyma *v1beta2.Kyma) error {
	s := kyma.Status.Runtime
	if s == nil || s.Agent == nil || s.Agent.Clone == "" {
		return nil
	}
	return reason.Errorf(
		reason.CloneDetected,
		"%s: stop the copy, then give the original another key: in it, delete Secret %s/skr-agent-key and apply "+
			"the output of `kcp-publisher enroll %s`",
		s.Agent.Clone,
		v1beta2.RuntimeNamespace,
		RuntimeID(kyma),
	)
}
