package fleet

import (
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
		return of(fromBundle.situation(k.reasons().Bundle), k.accepted)
	case string(refusal.Expired):
		return of(BundleExpired, k.accepted)
	case v1beta2.ReasonStorageRefused:
		return of(BundleNotKept, k.accepted)
	}
	return nil
}
