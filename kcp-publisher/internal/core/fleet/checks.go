package fleet

import (
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// findFailedCheck finds a module that is ready but fails a check that its rollout requires.
func findFailedCheck(k *kymaState) *finding {
	published := k.published()
	if published == nil {
		return nil
	}
	for i := range k.status {
		m := &k.status[i]
		given := published.Given[m.Name]
		for _, o := range given.Checks {
			if o.Result == v1beta2.CheckFailed {
				message := fmt.Sprintf("module %s is %s in version %s: %s",
					m.Name, m.State, published.Versions[m.Name], rollout.DescribeCheck(o))
				return &finding{situation: CheckFailed, module: m.Name, rollout: given.Rollout, message: message}
			}
		}
	}
	return nil
}
