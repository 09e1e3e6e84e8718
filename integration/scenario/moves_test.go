package scenario

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// movingObjects returns a CRD and a ConfigMap with an annotation.
func movingObjects(annotation string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crates.moving.kyma-pull.dev, annotations: {%[1]s}}
spec:
  group: moving.kyma-pull.dev
  names: {kind: Crate, listKind: CrateList, plural: crates, singular: crate}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: crate-settings, namespace: kyma-system, annotations: {%[1]s}}
data: {size: large}
`, annotation)
}

// movedIDs returns the UIDs of the moving objects and of a user's custom resource, and the owner of the moving
// objects.
func movedIDs(t *testing.T, r *fleet.Runtime) (ids [3]types.UID, owner string) {
	t.Helper()
	definition, config, crate := &apiextensionsv1.CustomResourceDefinition{}, &corev1.ConfigMap{}, newCrate()
	must(t, r.API.Get(t.Context(), client.ObjectKey{Name: "crates.moving.kyma-pull.dev"}, definition))
	must(t, r.API.Get(t.Context(), inKyma("crate-settings"), config))
	must(t, r.API.Get(t.Context(), client.ObjectKeyFromObject(crate), crate))
	for _, o := range []client.Object{definition, config, crate} {
		if o.GetDeletionTimestamp() != nil {
			t.Errorf("%s is being deleted", o.GetName())
		}
	}
	if owner = definition.Annotations[v1beta2.AnnotationOwnedBy]; owner != config.Annotations[v1beta2.AnnotationOwnedBy] {
		owner = "two modules" // one of the objects has moved
	}
	return [3]types.UID{definition.UID, config.UID, crate.GetUID()}, owner
}

func newCrate() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "moving.kyma-pull.dev/v1", "kind": "Crate", "metadata": map[string]any{
			"name": "users", "namespace": "default",
		},
	}}
	return o
}

// Both modules are promoted together. Each runtime still receives the two versions in different bundles, because the
// test approves the waves of the two rollouts one after the other.
func TestObjectsMoveBetweenModulesOfTwoRollouts(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	of := func(module, version, objects string) sample.Version {
		return owned(f, sample.Version{
			Module: module, Version: version, Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + module +
				"-own, namespace: kyma-system}\ndata: {version: " + version + "}\n" + objects,
		})
	}
	ship, dock := f.Own("ship"), f.Own("dock")
	must(t, f.Offer(ctx, of("ship", "1.0.0", movingObjects("")), of("dock", "1.0.0", ""),
		of("ship", "2.0.0", movingObjects("kyma-pull.dev/moves-to: "+dock)),
		of("dock", "2.0.0", movingObjects("kyma-pull.dev/moves-from: "+ship))))
	promoteBoth := func(version string) {
		for _, module := range []string{"ship", "dock"} {
			v := of(module, version, "")
			must(t, f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", version)))
		}
	}
	promoteBoth("1.0.0")
	first := runtimeWith(t, f, "first", map[string]string{"ship": "1.0.0", "dock": "1.0.0"})
	second := runtimeWith(t, f, "second", map[string]string{"ship": "1.0.0", "dock": "1.0.0"})
	kyma, err := first.Record(ctx)
	must(t, err)
	unlabeled := kyma.DeepCopy()
	kyma.Labels["stage"] = "canary"
	must(t, f.Control.Patch(ctx, kyma, client.MergeFrom(unlabeled)))
	before := map[*fleet.Runtime][3]types.UID{}
	for _, r := range []*fleet.Runtime{first, second} {
		must(t, r.API.Create(ctx, newCrate()))
		before[r], _ = movedIDs(t, r)
	}
	must(t, f.Control.Create(ctx, &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: f.Own("moving")},
		Spec: v1alpha1.RolloutPolicySpec{
			Modules: []string{ship, dock},
			Course:  stages(func(canaries, others *v1alpha1.Wave) { canaries.Approval, others.Approval = true, true }),
		},
	}))
	promoteBoth("2.0.0")
	upgrade := func(r *fleet.Runtime, module, wave, owner string) {
		t.Helper()
		rollout := module + "-regular-1"
		must(t, f.UntilRollout(ctx, rollout, "the wave waits for approval", func(s v1alpha1.RolloutStatus) bool {
			return s.State == v1alpha1.RolloutWaiting && s.Message == "wave "+wave+" waits for its approval"
		}))
		ask(t, f, "rollout", "approve", rollout, wave)
		must(t, r.UntilState(ctx, module, "2.0.0", v1beta2.StateReady))
		until(t, fleet.LongTimeout, "the objects belong to "+owner, func() (bool, string) {
			after, now := movedIDs(t, r)
			if after != before[r] {
				t.Fatalf("the objects of %s have the UIDs %v, want %v", r.ID, after, before[r])
			}
			return now == "kyma-system/"+owner, now
		})
	}
	upgrade(first, ship, "canaries", ship)
	upgrade(first, dock, "canaries", dock)
	upgrade(second, dock, "others", ship)
	upgrade(second, ship, "others", dock)
	for _, module := range []string{ship, dock} {
		must(t, f.UntilRollout(ctx, module+"-regular-1", "the rollout succeeds",
			rolledOut(v1alpha1.RolloutSucceeded)))
	}
	for _, r := range []*fleet.Runtime{first, second} {
		if after, owner := movedIDs(t, r); after != before[r] || owner != "kyma-system/"+dock {
			t.Errorf("%s has the objects %v of %s, want %v of %s", r.ID, after, owner, before[r], dock)
		}
	}
}
