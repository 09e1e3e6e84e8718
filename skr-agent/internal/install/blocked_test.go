package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

func TestDeadConversionWebhookDoesNotBlockUpgradeOrRemoval(t *testing.T) {
	w := newWorld(t)
	tank := func(file string) func(m *v1beta2.Manifest) {
		return func(m *v1beta2.Manifest) {
			m.Spec.Resource = contenttest.Object(t, input(t, "conversion-webhook-away-upgrade", file))
			m.Spec.CustomResourcePolicy = v1beta2.PolicyCreateAndDelete
		}
	}
	w.wantsInput("conversion-webhook-away-upgrade", "convdef", "1.0.0", tank("tank-v1.yaml"))
	w.runs(home, "tank-operator")
	w.state("convdef", v1beta2.StateReady, "")
	w.wantsInput("conversion-webhook-away-upgrade", "convdef", "2.0.0", tank("tank-v2.yaml"))
	w.eventually("the operator has the new image", func() bool {
		d := &appsv1.Deployment{}
		return w.exists(d, home, "tank-operator") && d.Spec.Template.Spec.Containers[0].Image == "example.org/t:2"
	})

	t.Log("the content contains a custom resource that cannot be converted")
	fixed := strings.ReplaceAll(input(t, "conversion-webhook-away-upgrade", "convdef", "1.0.0", "a.yaml"), "tank",
		"vat")
	w.wants("convfix",
		fixed+"---\n"+strings.ReplaceAll(input(t, "conversion-webhook-away-upgrade", "tank-v1.yaml"), "tank", "vat"),
		version("1.0.0"))
	w.runs(home, "vat-operator")
	w.state("convfix", v1beta2.StateReady, "")
	w.wants("convfix", strings.ReplaceAll(fixed, "/t:1", "/t:2")+"---\n"+
		strings.ReplaceAll(input(t, "conversion-webhook-away-upgrade", "tank-v2.yaml"), "tank", "vat"),
		version("2.0.0"))
	w.eventually("the operator has the new image", func() bool {
		d := &appsv1.Deployment{}
		return w.exists(d, home, "vat-operator") && d.Spec.Template.Spec.Containers[0].Image == "example.org/t:2"
	})
	w.state("convfix", v1beta2.StateProcessing, "conversion webhook for vat.example.org/v")
	require.Equal(t, w.manifest("convfix").Generation, w.manifest("convfix").Status.ObservedGeneration)

	t.Log("the removal reports the user's custom resource")
	w.wantsInput("conversion-webhook-away-removal", "convhook", "1.0.0")
	w.runs(home, "kiln-operator")
	w.state("convhook", v1beta2.StateReady, "")
	users := custom("kiln.example.org/v1", "Kiln", "default", "users")
	require.NoError(t, w.client.Create(t.Context(), users))
	w.remove("convhook")
	w.state("convhook", v1beta2.StateWarning, "Kiln default/users")
	require.NoError(t, w.client.Delete(t.Context(), users))
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "convhook") })
}

func TestVersionThatFixesBlockingWebhookOrPolicyIsApplied(t *testing.T) {
	w := newWorld(t)
	w.wantsInput("webhook-dropped-by-the-repair", "hookself", "1.0.0")
	w.eventually("the webhook is installed", func() bool {
		return w.exists(&admissionv1.MutatingWebhookConfiguration{}, "", "hookself")
	})
	w.wantsInput("webhook-dropped-by-the-repair", "hookself", "2.0.0")
	w.eventually("the webhook is gone", func() bool {
		return !w.exists(&admissionv1.MutatingWebhookConfiguration{}, "", "hookself")
	})
	w.eventually("2.0.0 is applied", func() bool { return planning.Installed(w.manifest("hookself")) })

	t.Log("a policy of the applied version denies the next version, which corrects or removes the policy")
	policy := func(expression string) string {
		return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: strict}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: policed}}
  validations: [{expression: "` + expression + `"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: strict}
spec: {policyName: strict, validationActions: [Deny]}
---
`
	}
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: policed}\n---\n"
	config := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: policed, namespace: policed}\ndata: {value: " +
			value + "}\n---\n"
	}
	w.wants("policed", namespace+config("one")+policy("object.data.value == 'one'"), version("1.0.0"))
	w.state("policed", v1beta2.StateReady, "")
	w.eventually("the policy is enforced", func() bool {
		denied := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policed", Name: "probe"}, Data: map[string]string{"value": "two"},
		}
		return w.client.Create(t.Context(), denied, client.DryRunAll) != nil
	})
	w.wants("policed", namespace+config("two")+policy("object.data.value != 'one'"), version("2.0.0"))
	value := func() string {
		live := &corev1.ConfigMap{}
		require.True(t, w.exists(live, "policed", "policed"))
		return live.Data["value"]
	}
	w.eventually("2.0.0 is applied", func() bool { return value() == "two" })
	w.wants("policed", namespace+config("one"), version("3.0.0"))
	w.eventually("3.0.0 is applied", func() bool { return value() == "one" })

	t.Log("a match condition of the applied version's webhook fails")
	webhook := `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: conditional}
webhooks:
- name: conditional.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  matchConditions: [{name: broken, expression: "object.data.missing == 'x'"}]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: policed}}
  clientConfig: {service: {name: none, namespace: policed}}
---
`
	w.wants("policed", namespace+config("one")+webhook, version("4.0.0"))
	w.eventually("the webhook is called", func() bool {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "policed", Name: "probe"}}
		return w.client.Create(t.Context(), probe, client.DryRunAll) != nil
	})
	w.wants("policed", namespace+config("two"), version("5.0.0"))
	w.eventually("5.0.0 is applied", func() bool { return value() == "two" })
}

func TestDenialByTenantsPolicyChangesNothing(t *testing.T) {
	w := newWorld(t)
	policy := func(name, expression string) string {
		return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
  validations: [{expression: "` + expression + `"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `, validationActions: [Deny]}
---
`
	}
	config := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guarded, namespace: default}\ndata: {value: " + value +
			"}\n---\n"
	}
	// Another module stands for the tenant.
	w.wants("tenant", policy("tenant", "object.data.value != 'two'"), version("1.0.0"))
	w.wants("guarded", config("one")+policy("own", "object.data.value != 'four'"), version("1.0.0"))
	w.state("guarded", v1beta2.StateReady, "")
	w.eventually("the policies are enforced", func() bool {
		for _, value := range []string{"two", "four"} {
			probe := configMap("probe", map[string]string{"value": value})
			probe.Namespace = "default"
			if w.client.Create(t.Context(), probe, client.DryRunAll) == nil {
				return false
			}
		}
		return true
	})
	w.wants("guarded", config("two")+policy("own", "object.data.value != 'five'"), version("2.0.0"))
	w.state("guarded", v1beta2.StateError, "nothing of version 2.0.0 was applied: ")
	live := &admissionv1.ValidatingAdmissionPolicy{}
	require.True(t, w.exists(live, "", "own"))
	require.Equal(t, "object.data.value != 'four'", live.Spec.Validations[0].Expression)
}

func TestRefusedObjectDoesNotBlockFirstInstallation(t *testing.T) {
	w := newWorld(t)
	const broken = "apiVersion: v1\nkind: Service\nmetadata: {name: broken}\nspec: {ports: [{port: 99999999}]}\n---\n"
	w.wants("first", aConfigMap("a")+broken+aConfigMap("b"), version("1.0.0"))
	w.state("first", v1beta2.StateError, "Service kyma-system/broken")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "a"))
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "b"))

	t.Log("drift of the other objects is corrected")
	require.NoError(t, w.client.Delete(t.Context(), configMap("b", nil)))
	w.eventually("drift is reverted", func() bool { return w.exists(&corev1.ConfigMap{}, home, "b") })
	w.state("first", v1beta2.StateError, "Service kyma-system/broken")
	w.wants("first", aConfigMap("a")+aConfigMap("b"), version("1.0.1"))
	w.state("first", v1beta2.StateReady, "")
}

func TestDeletedImmutableObjectIsCreatedAgain(t *testing.T) {
	w := newWorld(t)
	const selector = "selector: {matchLabels: {app: sample}}\n  template:\n    metadata: {labels: {app: sample}}"
	w.wants("fixed", sampleRest, version("1.0.0"))
	w.runs(home, "sample-manager")
	w.state("fixed", v1beta2.StateReady, "")
	require.Contains(t, sampleRest, selector)
	w.wants("fixed", strings.Replace(sampleRest, selector, strings.ReplaceAll(selector, "sample", "other"), 1),
		version("2.0.0"))
	w.state("fixed", v1beta2.StateError, "can only be changed by recreating it")
	live := &appsv1.Deployment{}
	require.True(t, w.exists(live, home, "sample-manager"))
	require.NoError(t, w.client.Delete(t.Context(), live))
	w.eventually("the new version creates it", func() bool {
		return w.exists(live, home, "sample-manager") && live.Spec.Selector.MatchLabels["app"] == "other"
	})
}
