package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

const (
	fixedV1 = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: fixed, namespace: kyma-system}
spec:
  selector: {matchLabels: {app: fixed}}
  template: {metadata: {labels: {app: fixed}}, spec: {containers: [{name: c, image: "example.org/c:1"}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed-a, namespace: kyma-system}
data: {version: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed-b, namespace: kyma-system}
data: {version: "1"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fixed-data, namespace: kyma-system}
spec: {accessModes: [ReadWriteOnce], storageClassName: one, resources: {requests: {storage: 1Gi}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: fixed-priority}
value: 1000
`
)

func version(v string) func(*v1beta2.Manifest) {
	return func(m *v1beta2.Manifest) { m.Spec.Version = v }
}

func TestDriftOfAppliedVersionIsCorrectedAfterRefusedUpgrade(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	data := func(name string) string {
		config := &corev1.ConfigMap{}
		if !w.exists(config, home, name) {
			return ""
		}
		return config.Data["version"]
	}
	drifts := func(name string) {
		t.Helper()
		config := &corev1.ConfigMap{}
		require.True(t, w.exists(config, home, name))
		was := config.Data["version"]
		config.Data["version"] = "drift"
		require.NoError(t, w.client.Update(ctx, config))
		w.eventually("drift of "+name+" is reverted", func() bool { return data(name) == was })
	}
	w.wants("fixed", fixedV1, version("1.0.0"))
	w.eventually("version 1.0.0 is applied", func() bool {
		return record.RunningVersion(w.manifest("fixed")) == "1.0.0" && planning.Installed(w.manifest("fixed"))
	})
	deployment := &appsv1.Deployment{}
	require.True(t, w.exists(deployment, home, "fixed"))

	t.Log("a value of the wrong type causes an Error, and no object of this version is applied")
	w.wants("fixed",
		strings.Replace(strings.Replace(fixedV1, `{version: "1"}`, `{version: "2"}`, 1), `{version: "1"}`,
			`{version: 2}`, 1)+"---\n"+fixedClass, version("1.1.0"))
	w.state("fixed", v1beta2.StateError, "fixed-b")
	require.Equal(t, "1.0.0", record.RunningVersion(w.manifest("fixed")))
	require.False(t, w.exists(ofKind("scheduling.k8s.io/v1", "PriorityClass", ""), "", "fixed-new"),
		"an object of an earlier stage must not be applied")
	drifts("fixed-a")
	require.Equal(t, "1", data("fixed-a"))
	w.halt()
	config := &corev1.ConfigMap{}
	require.True(t, w.exists(config, home, "fixed-b"))
	require.NoError(t, w.client.Delete(ctx, config))
	w.start()
	w.eventually("an object that was deleted while the agent was stopped is restored",
		func() bool { return data("fixed-b") == "1" })

	t.Log("immutable fields are reported with the fix, and objects are recreated if an annotation allows it")
	v2 := strings.NewReplacer(`{app: fixed}`, `{app: other}`, `"1"`, `"2"`, "storageClassName: one",
		"storageClassName: two", "value: 1000", "value: 2000").
		Replace(fixedV1)
	w.wants("fixed", v2, version("2.0.0"))
	w.state("fixed", v1beta2.StateError, "nothing of version 2.0.0 was applied: ")
	for _, text := range []string{"Deployment kyma-system/fixed: spec.selector: ", "PriorityClass fixed-priority",
		"PersistentVolumeClaim kyma-system/fixed-data", `"with-data"`, `"true"`} {
		w.state("fixed", v1beta2.StateError, text)
	}
	require.Equal(t, v1beta2.ReasonImmutable, w.reason("fixed", v1beta2.ConditionInstallation))
	drifts("fixed-a")
	require.Equal(t, "1", data("fixed-a"))
	w.wants(
		"fixed",
		strings.Replace(v2, "storageClassName: two", "storageClassName: one", 1),
		version("2.0.1"),
		func(m *v1beta2.Manifest) {
			m.Annotations[v1beta2.AnnotationRecreate] = v1beta2.True
		},
	)
	w.eventually("version 2.0.1 is applied", func() bool { return record.RunningVersion(w.manifest("fixed")) == "2.0.1" })
	again := &appsv1.Deployment{}
	require.True(t, w.exists(again, home, "fixed"))
	require.NotEqual(t, deployment.UID, again.UID)
	require.Contains(t, record.ReadUnverified(w.manifest("fixed")).Recreated.Objects, deployment.UID)
	require.Equal(t, "2", data("fixed-a"))
	claim := &corev1.PersistentVolumeClaim{}
	require.True(t, w.exists(claim, home, "fixed-data"))
	require.True(t, claim.DeletionTimestamp.IsZero())

	t.Log(
		"a downgrade is applied like an upgrade, and a refused correction does not block corrections of other objects",
	)
	w.wants("fixed", strings.Replace(fixedV1, "value: 1000", "value: 2000", 1), version("1.0.0"))
	w.eventually("version 1.0.0 is applied", func() bool { return record.RunningVersion(w.manifest("fixed")) == "1.0.0" })
	allow := w.denies(admissionv1.Update, "object.metadata.name != 'fixed-a' || object.data.version == 'drift'",
		"fixed-a")
	for _, name := range []string{"fixed-a", "fixed-b"} {
		require.True(t, w.exists(config, home, name))
		config.Data["version"] = "drift"
		require.NoError(t, w.client.Update(ctx, config))
	}
	w.eventually("the other object is corrected", func() bool { return data("fixed-b") == "1" })
	w.state("fixed", v1beta2.StateError, "ConfigMap kyma-system/fixed-a: ")
	require.Equal(t, "drift", data("fixed-a"))
	drifts("fixed-b")

	t.Log("an object that cannot be deleted does not block the deletion of others")
	allow()
	w.eventually("version 1.0.0 is completely applied again",
		func() bool { return planning.Installed(w.manifest("fixed")) })
	allow = w.denies(admissionv1.Delete, "oldObject.metadata.name != 'fixed-a'", "fixed-a")
	w.remove("fixed")
	w.eventually("the other objects are deleted", func() bool {
		return !w.exists(&corev1.ConfigMap{}, home, "fixed-b") && !w.exists(&appsv1.Deployment{}, home, "fixed")
	})
	w.state("fixed", v1beta2.StateDeleting, "ConfigMap kyma-system/fixed-a (cannot be deleted: ")
	allow()
	require.True(t, w.exists(claim, home, "fixed-data"))
	before := claim.DeepCopy()
	claim.Finalizers = nil // the controller that removes finalizer pvc-protection does not run
	require.NoError(t, w.client.Patch(ctx, claim, client.MergeFrom(before)))
	w.eventually("all objects are deleted", func() bool {
		return !w.exists(&v1beta2.Manifest{}, home, "fixed") && !w.exists(&corev1.ConfigMap{}, home, "fixed-a")
	})
}

// The API server rejects a module's label on the agent's namespace.
func TestRefusedNamespaceLabelDoesNotBlockOtherObjects(t *testing.T) {
	w := newWorld(t)
	ctx, config := t.Context(), &corev1.ConfigMap{}
	require.NoError(t, w.client.Create(ctx, w.object("apiVersion: admissionregistration.k8s.io/v1\n"+
		"kind: ValidatingAdmissionPolicy\nmetadata: {name: tenant}\nspec:\n  matchConstraints:\n    resourceRules:\n"+
		"    - {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}\n"+
		"  validations:\n  - {expression: \"!('team' in object.metadata.labels)\"}\n")))
	require.NoError(t, w.client.Create(ctx, w.object("apiVersion: admissionregistration.k8s.io/v1\n"+
		"kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: tenant}\n"+
		"spec: {policyName: tenant, validationActions: [Deny]}\n")))
	const labeled = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {team: blue}}\n---\n"
	w.eventually("the policy is enforced", func() bool {
		return w.client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"blue"}}}`)), client.DryRunAll) != nil
	})

	t.Log("a first installation applies the other objects")
	w.wants("first", labeled+aConfigMap("first"), version("1.0.0"))
	w.state("first", v1beta2.StateError, "Namespace kyma-system: ")
	w.eventually("the other object is applied", func() bool { return w.exists(config, home, "first") })

	t.Log("an upgrade applies nothing, and the applied version stays in force")
	w.wants("second", aConfigMap("second"), version("1.0.0"))
	w.state("second", v1beta2.StateReady, "")
	w.wants("second", labeled+aConfigMap("second")+aConfigMap("added"), version("2.0.0"))
	w.state("second", v1beta2.StateError, "nothing of version 2.0.0 was applied: Namespace kyma-system: ")
	require.True(t, w.exists(config, home, "second"))
	require.NoError(t, w.client.Delete(ctx, config))
	w.eventually("the object is restored", func() bool { return w.exists(config, home, "second") })
	require.False(t, w.exists(config, home, "added"))
}

const fixedClass = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: fixed-new}
value: 3000
`

// reason returns the reason of a Manifest's condition.
func (w *world) reason(name, condition string) string {
	for _, c := range w.manifest(name).Status.Conditions {
		if c.Type == condition {
			return c.Reason
		}
	}
	return ""
}

// denies creates a policy that denies an operation on ConfigMaps if the CEL expression is false. allow removes the
// policy.
func (w *world) denies(operation admissionv1.OperationType, expression, name string) (allow func()) {
	w.Helper()
	invalid := metav1.StatusReasonInvalid
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{
					{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{operation},
						Rule: admissionv1.Rule{
							APIGroups:   []string{""},
							APIVersions: []string{"*"},
							Resources:   []string{"configmaps"},
						},
					}}},
			},
			Validations: []admissionv1.Validation{{Expression: expression, Reason: &invalid}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	require.NoError(w, w.client.Create(w.Context(), policy))
	require.NoError(w, w.client.Create(w.Context(), binding))
	try := func() error {
		config := &corev1.ConfigMap{}
		if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: home, Name: name}, config); err != nil {
			return err
		}
		if operation == admissionv1.Delete {
			return w.client.Delete(w.Context(), config, client.DryRunAll)
		}
		metav1.SetMetaDataLabel(&config.ObjectMeta, "tried", "true")
		return w.client.Update(w.Context(), config, client.DryRunAll)
	}
	w.eventually("the policy is enforced", func() bool { return apierrors.IsInvalid(try()) })
	return func() {
		w.Helper()
		require.NoError(w, w.client.Delete(w.Context(), binding))
		require.NoError(w, w.client.Delete(w.Context(), policy))
		w.eventually("the policy is no longer enforced", func() bool {
			err := try()
			// The object can be gone already, because the agent deletes it as soon as the policy is removed.
			return err == nil || apierrors.IsNotFound(err)
		})
	}
}
