package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

func TestStatusPatchEqualsMergePatch(t *testing.T) {
	for what, change := range map[string]func(*v1beta2.Kyma){
		"module added": func(k *v1beta2.Kyma) {
			k.Status.Modules = append(k.Status.Modules, v1beta2.ModuleStatus{Name: "new"})
		},
		"unchanged status":        func(*v1beta2.Kyma) {},
		"bundle changed":          func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Digest = "sha256:b" },
		"version changed":         func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Versions["module-03"] = "1.1.0" },
		"module changed":          func(k *v1beta2.Kyma) { k.Status.Modules[3].Version = "1.1.0" },
		"module removed":          func(k *v1beta2.Kyma) { k.Status.Modules = k.Status.Modules[1:] },
		"all modules removed":     func(k *v1beta2.Kyma) { k.Status.Modules = nil },
		"empty list of modules":   func(k *v1beta2.Kyma) { k.Status.Modules = []v1beta2.ModuleStatus{} },
		"condition changed":       func(k *v1beta2.Kyma) { k.Status.Conditions[0].Status = metav1.ConditionFalse },
		"observed bundle removed": func(k *v1beta2.Kyma) { k.Status.Runtime.Observed = nil },
		"whole status removed":    func(k *v1beta2.Kyma) { k.Status = v1beta2.KymaStatus{} },
		"module and state changed": func(k *v1beta2.Kyma) {
			k.Status.Modules[0].State, k.Status.State = v1beta2.StateError, v1beta2.StateError
		},
	} {
		before := convergedKyma()
		after := before.DeepCopy()
		change(after)
		want, err := lockedPatch(before).Data(after)
		if err != nil {
			t.Fatal(err)
		}
		kept := after.DeepCopy()
		got, err := statusPatch{before}.Data(after)
		if err != nil || !sameJSON(t, got, want) {
			t.Errorf("%s: got %s, %v, want %s", what, got, err, want)
		}
		if len(after.Status.Modules) != len(kept.Status.Modules) {
			t.Errorf("%s: creating the patch changed the Kyma's modules", what)
		}
	}
	if _, err := (statusPatch{convergedKyma()}).Data(&corev1.Secret{}); err == nil {
		t.Error("a patch of a Secret returned no error")
	}
}

// lockedPatch returns the patch that client.MergeFrom creates, with the Kyma's resource version as the optimistic lock.
func lockedPatch(before *v1beta2.Kyma) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var one, other any
	if err := errors.Join(json.Unmarshal(a, &one), json.Unmarshal(b, &other)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(one, other)
}

func TestStatusPatchAddsTheFirstModules(t *testing.T) {
	after := convergedKyma()
	before := after.DeepCopy()
	before.Status.Modules = nil
	want, err := lockedPatch(before).Data(after)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (statusPatch{before}).Data(after); err != nil || !sameJSON(t, got, want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func BenchmarkStatusPatch(b *testing.B) {
	before := convergedKyma()
	after := before.DeepCopy()
	after.Status.Runtime.Published.Digest, after.Status.Runtime.Published.Versions["module-03"] = "sha256:b", "1.1.0"
	other := after.DeepCopy()
	other.Status.Modules[3].Version = "1.1.0"
	for name, c := range map[string]struct {
		patch client.Patch
		after *v1beta2.Kyma
	}{
		"status": {statusPatch{before}, after}, "whole Kyma": {lockedPatch(before), after},
		"status with modules": {statusPatch{before}, other}, "whole Kyma with modules": {lockedPatch(before), other},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.patch.Data(c.after); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
