package controlplanetest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// SetVersion changes the version of module-b in the module status, the published bundle and the running modules.
func SetVersion(version string, k *v1beta2.Kyma) {
	k.Status.Modules[1].Version = version
	k.Status.Runtime.Published.Versions["module-b"] = version
	k.Status.Runtime.Running = fleet.RunningModules(k)
}

// UnhealthyAt maps a Kyma's number to a change that makes the Kyma unhealthy.
var UnhealthyAt = map[int]func(*v1beta2.Kyma){
	3:  Break,
	14: func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelSkipReconciliation] = "true" },
	15: func(k *v1beta2.Kyma) { k.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Minute)} },
	92: func(k *v1beta2.Kyma) { k.Status.Runtime.HealthyUntil = nil },
	65: func(k *v1beta2.Kyma) {
		long := metav1.NewTime(time.Now().Add(-72 * time.Hour))
		k.Status.Runtime.Observed.Time, k.Status.Runtime.Observed.Heard = long, &long
		k.Status.Runtime.HealthyUntil = &metav1.Time{Time: long.Add(25 * time.Hour)}
	},
}

// Break makes the first module of a Kyma fail.
func Break(k *v1beta2.Kyma) {
	k.Status.State, k.Status.Runtime.HealthyUntil = v1beta2.StateError, nil
	k.Status.Modules[0].State, k.Status.Modules[0].Message = v1beta2.StateError, "crashes"
	k.Status.Conditions[0].Status, k.Status.Conditions[0].Reason = metav1.ConditionFalse, v1beta2.ReasonNotReady
}

// BreakSome makes the Kyma with number i unhealthy if UnhealthyAt contains this number.
func BreakSome(i int, kyma *v1beta2.Kyma) {
	if change := UnhealthyAt[i]; change != nil {
		change(kyma)
	}
}
