package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// refused tries to create a labeled ConfigMap in a dry run, and returns the API server's error.
func refused(ctx context.Context, api kubernetes.Interface, label string) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "refused-", Labels: map[string]string{"left": label},
	}}
	_, err := api.CoreV1().ConfigMaps("default").Create(ctx, config, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll},
	})
	return err
}

// leaveAdmissionRules creates a webhook and a policy that reject labeled ConfigMaps, and waits until both are enforced.
func leaveAdmissionRules(t *testing.T, api kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		},
	}
	labeled := func(label string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"left": label}}
	}
	admission := api.AdmissionregistrationV1()
	must(admission.ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "left"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:           "webhook.left.example.org",
			ClientConfig:   admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules:          []admissionv1.RuleWithOperations{rule},
			ObjectSelector: labeled("webhook"), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}))
	must(admission.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "left"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: labeled("policy"),
				ResourceRules:  []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionv1.Validation{{Expression: "false"}},
		},
	}, metav1.CreateOptions{}))
	must(admission.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "left"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "left", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{}))
	for label, by := range map[string]string{"webhook": "webhook.left.example.org", "policy": "'left'"} {
		must(nil, wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := refused(ctx, api, label)
				return err != nil && strings.Contains(err.Error(), by), nil
			}))
	}
}
