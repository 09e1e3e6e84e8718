package fleet

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func bundleRefused(k *known) *found {
	if k.accepted == nil || k.accepted.Status == metav1.ConditionTrue {
		return nil
	}
	switch k.accepted.Reason {
	case v1beta2.ReasonBundleRefused:
		return of(cmp.Or(refusals[k.refusedFor()], BundleRefused), k.accepted)
	case string(refusal.Expired):
		return of(BundleExpired, k.accepted)
	case v1beta2.ReasonStorageRefused:
		return of(BundleNotKept, k.accepted)
	}
	return nil
}

// refusedFor returns why the newest bundle was refused. Of another bundle, and in the status of a publisher that does not note it, the message has it.
func (k *known) refusedFor() refusal.Reason {
	if published := k.published(); published != nil {
		for i := range k.kyma.Status.Runtime.History {
			if b := &k.kyma.Status.Runtime.History[i]; b.Digest == published.Digest && b.Refused != "" {
				return refusal.Reason(b.Refused)
			}
		}
	}
	return reasonIn(k.accepted.Message)
}
