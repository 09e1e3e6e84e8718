package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// freeAddress returns a free address on which a program can listen later.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.Address()
	must(t, err)
	return address
}

func TestV1beta1KymaReceivesABundle(t *testing.T) {
	ctx, address := t.Context(), freeAddress(t)
	f := newFleet(t, fleet.Options{
		PublisherFlags:  []string{"--webhook-url", "https://" + address, "--set", "webhook-bind-address=" + address},
		PublisherRights: []string{"publisher.yaml", "webhooks.yaml"},
	})
	old := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Kyma",
		"metadata": map[string]any{"namespace": sample.Namespace, "name": "old"},
		"spec": map[string]any{
			"channel": "regular", "modules": []any{map[string]any{"name": "scaler"}},
			"sync": map[string]any{"enabled": true, "moduleCatalog": true, "namespace": v1beta2.RuntimeNamespace},
		},
	}}
	until(t, 30*time.Second, "the API server accepts a v1beta1 Kyma", func() (bool, string) {
		err := client.IgnoreAlreadyExists(f.Control.Create(ctx, old.DeepCopy()))
		return err == nil, fmt.Sprint(err)
	})
	until(t, 30*time.Second, "the v1beta1 Kyma has a bundle", func() (bool, string) {
		var kyma v1beta2.Kyma
		err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "old"}, &kyma)
		return err == nil && kyma.Status.Runtime != nil && kyma.Status.Runtime.Published != nil,
			fmt.Sprint(err, kyma.Status)
	})
	t.Run("guide commands convert stored objects", func(t *testing.T) { checkGuideConversion(t, f, old) })
	broken := &v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "scaler-9.0.0"},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: "scaler", Version: "9.0.0", Descriptor: runtime.RawExtension{
				Raw: []byte(`{"meta":{"schemaVersion":"v9"}}`),
			},
		},
	}
	if err := f.Control.Create(ctx, broken); err == nil ||
		!strings.Contains(err.Error(), "spec.descriptor: component descriptor: meta.schemaVersion") {
		t.Errorf("unresolvable template is not refused: %v", err)
	}
	policy := inControlPlane(&v1alpha1.RolloutPolicy{Spec: v1alpha1.RolloutPolicySpec{
		Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{
			Name: "canary", Count: new(int32(1)), Checks: []v1alpha1.Check{{
				Name: "ready", CEL: &v1alpha1.CELCheck{Expression: "objcts == []"},
			}},
		}}},
	}}, "careful")
	if err := f.Control.Create(ctx, policy); err == nil ||
		!strings.Contains(err.Error(), "spec.waves[0].checks[0].cel.expression: line 1, column 1: undeclared reference") {
		t.Errorf("policy with an invalid expression is not refused: %v", err)
	}
	checkRestored(t, f)
	rights, err := f.PublisherRights()
	must(t, err)
	lacksNothing(t, "publisher", rights)
	// The publisher serves the webhooks. While it is down, requests for v1beta2 must still succeed.
	f.Publisher().Kill()
	broken.Spec.Descriptor.Raw = []byte("{}")
	must(t, f.Control.Create(ctx, broken))
}

// checkGuideConversion converts an object with an old API version, using the commands in
// docs/guides/upgrade-and-skew.md.
func checkGuideConversion(t *testing.T, f *fleet.Fleet, old *unstructured.Unstructured) {
	s := newShell(t, t.TempDir(), f.Binaries(), "berlin", old.GetName(), "kcp.kubeconfig",
		filepath.Join(f.Dir, "kcp.kubeconfig"))
	must(t, os.WriteFile(filepath.Join(s.dir, "kyma-v1beta1.yaml"), []byte(document(t, old)), 0o600))
	for _, block := range guide(t, "upgrade-and-skew.md")["convert"] {
		checkStep(t, s, block) // API discovery lists a new API version with a delay
	}
	for version, want := range map[string]string{"v1beta1": "  sync:\n", "v1beta2": "v1beta1-sync"} {
		data, err := os.ReadFile(filepath.Join(s.dir, old.GetName()+"-"+version+".yaml"))
		must(t, err)
		if text := string(data); !strings.Contains(text, "apiVersion: operator.kyma-project.io/"+version+"\n") ||
			!strings.Contains(text, want) {
			t.Errorf("version %s: unexpected stored object:\n%s", version, data)
		}
	}
}

// checkRestored applies the chart's CRDs again, which removes the webhook settings, and checks that the publisher
// restores them.
func checkRestored(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	ctx := t.Context()
	certificates := inControlPlane(&corev1.Secret{}, "kcp-publisher-webhook")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(certificates), certificates))
	served := certificates.DeepCopyObject().(*corev1.Secret)
	// The publisher must restore the webhook configuration's content.
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kcp-publisher.kyma-pull.dev"},
	}
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(configuration), configuration))
	configuration.Webhooks = nil
	must(t, f.Control.Delete(ctx, certificates))
	must(t, f.Control.Update(ctx, configuration))
	crd := definitionOf("kymas")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(crd), crd))
	must(t, unstructured.SetNestedMap(crd.Object, map[string]any{"strategy": "None"}, "spec", "conversion"))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	must(t, err)
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok && version["name"] == "v1beta1" {
			version["served"] = false
		}
	}
	must(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	must(t, f.Control.Update(ctx, crd))
	until(t, 10*time.Second, "certificates, webhook configuration and CRD are restored", func() (bool, string) {
		now := inControlPlane(&corev1.Secret{}, "kcp-publisher-webhook").(*corev1.Secret)
		err := errors.Join(f.Control.Get(ctx, client.ObjectKeyFromObject(now), now),
			f.Control.Get(ctx, client.ObjectKeyFromObject(configuration), configuration),
			f.Control.Get(ctx, client.ObjectKeyFromObject(crd), crd))
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		return err == nil && strategy == "Webhook" && len(configuration.Webhooks) == 4 &&
			reflect.DeepEqual(now.Data, served.Data), fmt.Sprint(err, strategy)
	})
	until(t, 10*time.Second, "v1beta1 is served", func() (bool, string) {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("operator.kyma-project.io/v1beta1")
		old.SetKind("Kyma")
		err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "old"}, old)
		return err == nil, fmt.Sprint(err)
	})
}

func inControlPlane(o client.Object, name string) client.Object {
	o.SetNamespace(sample.Namespace)
	o.SetName(name)
	return o
}
