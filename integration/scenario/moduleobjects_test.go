package scenario

import (
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// deadWebhook is a webhook that intercepts the agent's writes and never responds.
const deadWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: dead.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  rules:
  - {apiGroups: [''], apiVersions: ['*'], resources: [secrets, configmaps], operations: ['*']}
  - {apiGroups: [operator.kyma-project.io], apiVersions: ['*'], resources: ['*/*'], operations: ['*']}
  namespaceSelector: {matchExpressions: [%s]}
`

// labelsHome returns module content that sets labels on the agent's namespace.
func labelsHome(labels string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {" + labels + "}}\n"
}

func TestModuleCannotBlockAgentOrTakeForeignObjects(t *testing.T) {
	suite.Long(t) // the short suite runs TestModulesCannotLockOutTheAgent and TestModuleDoesNotTakeOverForeignObjects
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	asks := func(versions ...sample.Version) {
		t.Helper()
		for _, v := range versions {
			v = owned(f, v)
			must(t, f.Offer(ctx, v))
			must(t, f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", v.Version)))
			must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
				if !slices.ContainsFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == v.Module }) {
					spec.Modules = append(spec.Modules, managed(v.Module))
				}
			}))
		}
	}
	remove := func(modules ...string) {
		t.Helper()
		for i := range modules {
			modules[i] = f.Own(modules[i])
		}
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
				return slices.Contains(modules, m.Name)
			})
		}))
		for _, module := range modules {
			must(t, r.UntilGone(ctx, module))
		}
	}
	must(t, r.API.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}))
	data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "customer-data"}}
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "theirs"},
		Data:       map[string]string{"is": "the tenant's"},
	}
	must(t, r.API.Create(ctx, data))
	must(t, r.API.Create(ctx, theirs))
	scaler := scalerCR()
	must(t, r.API.Get(ctx, inKyma("default"), scaler))

	t.Run("webhook that would match the agent through another module's label is refused", func(t *testing.T) {
		asks(overreachingModule("labels", labelsHome("inject: 'yes'")))
		must(t, r.UntilState(ctx, f.Own("labels"), "1.0.0", v1beta2.StateReady))
		asks(overreachingModule("nosy", fmt.Sprintf(deadWebhook, "nosy", "{key: inject, operator: Exists}")))
		untilRefused(t, r, f.Own("nosy"), "ValidatingWebhookConfiguration nosy: webhooks[0] would intercept",
			"{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}")
		better := overreachingModule(
			"nosy",
			fmt.Sprintf(deadWebhook, "nosy",
				"{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}"),
		)
		better.Version = "1.1.0"
		asks(better)
		must(t, r.UntilState(ctx, f.Own("nosy"), "1.1.0", v1beta2.StateReady))
	})
	t.Run("label that would make a webhook match the agent is refused", func(t *testing.T) {
		webhook := &admissionv1.ValidatingWebhookConfiguration{}
		must(t, yaml.Unmarshal(fmt.Appendf(nil, deadWebhook, "audit", "{key: audit, operator: Exists}"), webhook))
		must(t, r.API.Create(ctx, webhook))
		asks(overreachingModule("opener", labelsHome("audit: 'on'")))
		untilRefused(t, r, f.Own("opener"),
			"Namespace kyma-system: metadata.labels: audit=on would let ValidatingWebhookConfiguration audit")
		namespace := &corev1.Namespace{}
		must(t, r.API.Get(ctx, client.ObjectKey{Name: v1beta2.RuntimeNamespace}, namespace))
		if namespace.Labels["audit"] != "" {
			t.Error("the refused label was added to the namespace")
		}
		remove("opener")
		must(t, r.API.Delete(ctx, webhook))
	})
	t.Run("objects of other clients are not written or deleted", func(t *testing.T) {
		thief := overreachingModule("thief", "")
		thief.DefaultCR = "apiVersion: v1\nkind: Secret\nmetadata: {name: customer-data, namespace: tenant}\n"
		heir := overreachingModule("heir", "")
		heir.DefaultCR = "apiVersion: sample.kyma-pull.dev/v1\nkind: Scaler\nmetadata: {name: default, namespace: " +
			"kyma-system}\nspec: {interval: 1}\n"
		burglar := overreachingModule("burglar",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: kyma-system}\ndata: {is: stolen}\n")
		squatter := overreachingModule("squatter", heir.DefaultCR)
		asks(thief, heir, burglar, squatter)
		untilRefused(
			t,
			r,
			f.Own("heir"),
			"Scaler kyma-system/default (of kyma-system/"+f.Own("scaler")+
				") already exists and does not belong to this module",
		)
		untilRefused(t, r, f.Own("squatter"), "Scaler kyma-system/default already belongs to module")
		untilRefused(t, r, f.Own("burglar"),
			"ConfigMap kyma-system/theirs already exists and does not belong to this module",
			"kyma-pull.dev/adopt=kyma-system/"+f.Own("burglar"))
		must(t, r.UntilState(ctx, f.Own("thief"), "1.0.0", v1beta2.StateReady))
		remove("heir", "squatter", "thief")
		must(t, r.API.Get(ctx, client.ObjectKeyFromObject(data), data))
		must(t, r.API.Get(ctx, client.ObjectKeyFromObject(theirs), theirs))
		if theirs.Data["is"] != "the tenant's" {
			t.Errorf("the tenant's ConfigMap was changed: %v", theirs.Data)
		}
		same := scalerCR()
		must(t, r.API.Get(ctx, inKyma("default"), same))
		if same.GetUID() != scaler.GetUID() || same.GetGeneration() != scaler.GetGeneration() {
			t.Error("the scaler's default CR was changed or recreated")
		}
	})
	t.Run("object released by its owner is deleted with the module", func(t *testing.T) {
		must(t, r.API.Patch(ctx, theirs,
			client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"kyma-pull.dev/adopt":"kyma-system/`+f.Own("burglar")+`"}}}`))))
		must(t, r.UntilState(ctx, f.Own("burglar"), "1.0.0", v1beta2.StateReady))
		remove("burglar")
		if err := r.API.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); !apierrors.IsNotFound(err) {
			t.Errorf("the object still exists: %v", err)
		}
	})
	t.Run("later bundles are applied and modules are removed", func(t *testing.T) {
		promote(t, f, "1.8.0")
		must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))
		remove("nosy", "labels", "scaler")
		if err := r.API.Get(ctx, inKyma("default"), scalerCR()); err == nil {
			t.Error("the scaler's default CR still exists")
		}
	})
}
