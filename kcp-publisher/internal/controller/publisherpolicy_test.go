package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/permission"
)

// The test impersonates the publisher with the permissions from its chart.
func TestPublisherCanPatchOnlyItsOwnKymaFields(t *testing.T) {
	u, ctx := startUsers(t), t.Context()
	u.apply("rbac", "publisher.yaml")
	u.apply("policy", "publisher.yaml")
	u.apply("policy", "settings.yaml")
	kyma := kymaIn("kcp-system", "berlin")
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: "berlin"}
	kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: v1beta2.True}
	u.must(u.admin.Create(ctx, kyma))
	publisher := u.as("system:serviceaccount:kcp-system:kcp-publisher")
	patch := func(change func(*v1beta2.Kyma)) error {
		changed := kyma.DeepCopy()
		change(changed)
		return publisher.Patch(ctx, changed, client.MergeFrom(kyma), client.DryRunAll)
	}
	u.eventually("the policy is in force", func() error {
		err := patch(func(k *v1beta2.Kyma) { k.Spec.Channel = "fast" })
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot change the spec") {
			return fmt.Errorf("got %w", errors.Join(errors.New("not refused"), err))
		}
		return nil
	})
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		refuse string
	}{
		"added finalizer":       {func(k *v1beta2.Kyma) { k.Finalizers = []string{v1beta2.FinalizerKyma} }, ""},
		"changed shard label":   {func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelShard] = "1-of-2" }, ""},
		"added module":          {func(k *v1beta2.Kyma) { k.Spec.Modules = []v1beta2.Module{{Name: "keda"}} }, "spec"},
		"added label":           {func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelBeta] = v1beta2.True }, "labels"},
		"changed runtime label": {func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelRuntimeID] = "tokyo" }, "labels"},
		"removed label":         {func(k *v1beta2.Kyma) { delete(k.Labels, v1beta2.LabelRuntimeID) }, "labels"},
		"changed agent image": {func(k *v1beta2.Kyma) {
			k.Annotations[v1beta2.AnnotationAgentImage] = evilImage
		}, "annotation"},
		"changed annotation": {
			func(k *v1beta2.Kyma) { k.Annotations[v1beta2.AnnotationCarried] = "1h" }, "annotation",
		},
		"removed annotation": {func(k *v1beta2.Kyma) { k.Annotations = nil }, "annotation"},
		"added owner reference": {func(k *v1beta2.Kyma) {
			k.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "1"}}
		}, "owners"},
	} {
		err := patch(c.change)
		if c.refuse == "" && err != nil ||
			c.refuse != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: got error %v, want refusal %q", name, err, c.refuse)
		}
	}
	u.eventually("the API server enforces the policy for settings", func() error {
		err := publisher.Patch(ctx, kymaIn("kcp-system", "berlin"),
			client.RawPatch(types.MergePatchType, permission.Probe()), client.DryRunAll)
		if !permission.IsEnforced(err) {
			return fmt.Errorf("the probe found no enforced policy: %w", err)
		}
		return nil
	})
	kyma.Spec.Channel = "fast"
	u.must(u.admin.Update(ctx, kyma))
	status := kyma.DeepCopy()
	status.Status.State = v1beta2.StateReady
	if err := publisher.Status().Patch(ctx, status, client.MergeFrom(kyma)); err != nil {
		t.Errorf("the publisher cannot patch the status: %v", err)
	}
}

// The test impersonates the publisher with the permissions from its chart.
func TestPublisherWritesOnlyTheSecretOfItsWebhooks(t *testing.T) {
	u, ctx := startUsers(t), t.Context()
	u.apply("rbac", "webhooks.yaml")
	u.apply("policy", "secrets.yaml")
	publisher := u.as("system:serviceaccount:kcp-system:kcp-publisher")
	create := func(change func(*corev1.Secret)) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "kcp-publisher-webhook"},
			Type:       corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil},
		}
		change(secret)
		return publisher.Create(ctx, secret)
	}
	const byName, byLabel = "the publisher can write only Secret", "the publisher cannot change labels"
	isRefused := func(err error, rule string) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), rule)
	}
	signatureKey := func(s *corev1.Secret) { s.Labels = map[string]string{v1beta2.LabelSignature: "kyma"} }
	u.eventually("the policy is in force", func() error {
		err := create(func(s *corev1.Secret) { s.Name = "other"; signatureKey(s) })
		if !isRefused(err, byName) && !isRefused(err, byLabel) {
			return fmt.Errorf("got %w", errors.Join(errors.New("not refused"), err))
		}
		return nil
	})
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		rule   string
	}{
		"another name":   {func(s *corev1.Secret) { s.Name = "other" }, byName},
		"generated name": {func(s *corev1.Secret) { s.Name, s.GenerateName = "", "kcp-publisher-webhook" }, byName},
		"another type":   {func(s *corev1.Secret) { s.Type, s.Data = corev1.SecretTypeOpaque, nil }, byName},
		"another ServiceAccount's token": {func(s *corev1.Secret) {
			s.Type, s.Data = corev1.SecretTypeServiceAccountToken, nil
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		}, byName},
		"public key for signatures": {signatureKey, byLabel},
	} {
		if err := create(c.change); !isRefused(err, c.rule) {
			t.Errorf("%s: got error %v, want %q", name, err, c.rule)
		}
		u.must(client.IgnoreNotFound(u.admin.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("kcp-system"))))
	}
	u.must(create(func(*corev1.Secret) {}))
	secret := &corev1.Secret{}
	u.must(publisher.Get(ctx, client.ObjectKey{Namespace: "kcp-system", Name: "kcp-publisher-webhook"}, secret))
	secret.Data["ca.crt"] = []byte("next")
	u.must(publisher.Update(ctx, secret))
	secret.Labels = map[string]string{v1beta2.LabelSignature: "kyma"}
	if err := publisher.Update(ctx, secret); !isRefused(err, byLabel) {
		t.Errorf("added label: got error %v, want a refusal by the policy", err)
	}
}
