package pristine

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admission lists the key prefixes of the objects that define webhooks and admission policies. The API server keeps a
// copy of these objects, and drops a deleted object's copy only after about a second.
var admission = []string{
	root + "validatingwebhookconfigurations/", root + "mutatingwebhookconfigurations/",
	root + "validatingadmissionpolicies/", root + "validatingadmissionpolicybindings/",
}

// canaryLabel is the label of the ConfigMaps that a canary refuses. A canary is a temporary webhook or policy. The
// value of the label is the canary's name.
const canaryLabel = "kyma-pull.dev/canary"

// Names of the canaries.
const (
	mutating   = "mutating.canary.kyma-pull.dev"
	validating = "validating.canary.kyma-pull.dev"
	policy     = "policy.canary.kyma-pull.dev"
)

// forgetAdmission waits until the API server enforces only the webhooks and policies that are in etcd. It creates a
// canary for each kind, which refuses labeled ConfigMaps. The API server reads changes to a kind's objects in order, so
// it has read all earlier deletions once it enforces the canaries. Then, forgetAdmission deletes the canaries and waits
// until the API server accepts the ConfigMaps.
func (s *Snapshot) forgetAdmission(ctx context.Context) error {
	api, err := client.New(s.config, client.Options{})
	if err != nil {
		return err
	}
	for _, canary := range canaries() {
		if err := api.Create(ctx, canary); err != nil {
			return fmt.Errorf("create canary %s: %w", canary.GetName(), err)
		}
	}
	for _, name := range []string{mutating, validating, policy} {
		if err := eventually(ctx, func(ctx context.Context) error {
			// If another webhook or policy refuses the ConfigMap, its error does not contain the canary's name.
			if err := probe(ctx, api, name); err == nil || !strings.Contains(err.Error(), name) {
				return fmt.Errorf("%s is not yet enforced: %w", name, err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, canary := range canaries() {
		if err := api.Delete(ctx, canary); err != nil {
			return fmt.Errorf("delete canary %s: %w", canary.GetName(), err)
		}
	}
	for _, name := range []string{mutating, validating, policy} {
		if err := eventually(ctx, func(ctx context.Context) error { return probe(ctx, api, name) }); err != nil {
			return fmt.Errorf("%s is still enforced: %w", name, err)
		}
	}
	return nil
}

// probe sends a dry run that creates a ConfigMap with a canary's label.
func probe(ctx context.Context, api client.Client, canary string) error {
	return api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, GenerateName: "canary-", Labels: map[string]string{canaryLabel: canary},
	}}, client.DryRunAll)
}

// canaries returns new canaries. The webhooks refuse ConfigMaps because no program listens at their address.
func canaries() []client.Object {
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
	labeled := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{canaryLabel: name}}
	}
	unreachable := admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
	return []client.Object{
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: mutating},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: mutating, ClientConfig: unreachable, Rules: []admissionv1.RuleWithOperations{rule},
				ObjectSelector: labeled(mutating), FailurePolicy: new(admissionv1.Fail),
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: validating},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: validating, ClientConfig: unreachable, Rules: []admissionv1.RuleWithOperations{rule},
				ObjectSelector: labeled(validating), FailurePolicy: new(admissionv1.Fail),
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: policy},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{
					ObjectSelector: labeled(policy),
					ResourceRules:  []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
				},
				Validations: []admissionv1.Validation{{Expression: "false"}},
			},
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: policy},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: policy, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		},
	}
}
