package controller

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func convergedKyma() *v1beta2.Kyma {
	kyma := restingKyma("one")
	kyma.ResourceVersion = "7"
	versions := map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("module-%02d", i)
		kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{
			Name: name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
		object := &v1beta2.TrackingObject{
			TypeMeta:    metav1.TypeMeta{APIVersion: "operator.kyma-project.io/v1beta2", Kind: "Manifest"},
			PartialMeta: v1beta2.PartialMeta{Name: name, Namespace: "kyma-system", Generation: 1},
		}
		kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{
			Name: name, FQDN: "kyma-project.io/module/" + name, Channel: "regular", Version: "1.0.0",
			State: v1beta2.StateReady, Manifest: object, Resource: object, Template: object,
		})
		versions[name] = "1.0.0"
	}
	kyma.Status.Runtime.Published.Versions = versions
	kyma.Status.Conditions = []metav1.Condition{
		{Type: v1beta2.ConditionReporting, Status: metav1.ConditionTrue, Reason: "Ready", Message: "it reports"},
	}
	return kyma
}

func BenchmarkStatusPatch(b *testing.B) {
	before := convergedKyma()
	after := before.DeepCopy()
	after.Status.Runtime.Published.Digest, after.Status.Modules[3].Version = "sha256:b", "1.1.0"
	for name, encode := range map[string]func() (client.Patch, error){
		"status":      func() (client.Patch, error) { return statusPatch(before, after) },
		"merge patch": func() (client.Patch, error) { return client.MergeFrom(before), nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				patch, err := encode()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := patch.Data(after); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
