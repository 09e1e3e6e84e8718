package chaos

import (
	"context"
	"errors"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// refusal returns an admission policy that refuses the modules' ConfigMaps, and the binding of this policy.
func refusal() []client.Object {
	named := metav1.ObjectMeta{Name: "refused-by-a-user"}
	return []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: v1beta2.RuntimeNamespace},
				},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
					},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "!object.metadata.name.endsWith('-settings')"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: named.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		},
	}
}

// refuseObjects creates an admission policy that refuses module objects.
func refuseObjects(ctx context.Context, api client.Client) error {
	var problems []error
	for _, o := range refusal() {
		problems = append(problems, client.IgnoreAlreadyExists(api.Create(ctx, o)))
	}
	return errors.Join(problems...)
}

// acceptObjects deletes the policy of refuseObjects.
func acceptObjects(ctx context.Context, api client.Client) error {
	var problems []error
	for _, o := range slices.Backward(refusal()) {
		problems = append(problems, client.IgnoreNotFound(api.Delete(ctx, o)))
	}
	return errors.Join(problems...)
}
