package fleet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func findBundleRefused(k *kymaState) *finding {
	if k.accepted == nil || k.accepted.Status == metav1.ConditionTrue {
		return nil
	}
	switch k.accepted.Reason {
	case v1beta2.ReasonBundleRefused:
		return newFinding(fromBundle.situation(k.reasons().Bundle), k.accepted)
	case string(refusal.Expired):
		return newFinding(BundleExpired, k.accepted)
	case v1beta2.ReasonStorageRefused:
		return newFinding(BundleNotKept, k.accepted)
	}
	return nil
}
