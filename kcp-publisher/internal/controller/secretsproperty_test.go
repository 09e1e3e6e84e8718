package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// The test generates random Secrets in the control plane. The agent must be able to open the sealed Secrets. If a
// Secret is not in the bundle, an error must name it. Other Secrets must not keep a valid Secret out of a bundle that
// is not full.
func TestAgentsCanOpenAllSealedSecrets(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to := identity.Recipient().String()
	rapid.Check(t, func(t *rapid.T) {
		var secrets []corev1.Secret
		for i := range rapid.IntRange(0, 80).Draw(t, "secrets") {
			secrets = append(secrets, drawSecret(t, i))
		}
		control := corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runtimes", Name: "zz-control", UID: "control"},
			Data:       map[string][]byte{"a": []byte("b")},
		}
		all, refused := runtimeSecrets(append(secrets, control))
		next, tooMuch := bundle.Secrets{Secrets: all, Removals: drawRemovals(t, all)}.SelectFitting("one")
		sealed, err := next.Seal("one", to)
		if err != nil {
			t.Fatalf("the publisher cannot seal valid Secrets: %v", err)
		}
		opened, err := sealed.Open("one", identity)
		if err != nil {
			t.Fatalf("the agent refuses the sealed Secrets: %v", err)
		}
		problems := fmt.Sprint(refused, tooMuch)
		for _, secret := range append(secrets, control) {
			at := newRuntimeSecret(&secret).NamespacedName()
			isOpened := slices.ContainsFunc(opened.Secrets, func(s bundle.RuntimeSecret) bool {
				return s.NamespacedName() == at
			})
			if !isOpened && !strings.Contains(problems, at) && !strings.Contains(problems, secret.Name) {
				t.Fatalf("Secret %s is not in the bundle, and no error names it: %s", at, problems)
			}
			if secret.Name == control.Name && !isOpened && len(opened.Secrets) < bundle.MaxSecrets && tooMuch == nil {
				t.Fatalf("another Secret prevents the valid Secret: %s", problems)
			}
		}
	})
}

func drawSecret(t *rapid.T, i int) corev1.Secret {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "runtimes", Name: fmt.Sprintf("s-%03d", i), UID: types.UID(fmt.Sprint(i)),
			Annotations: map[string]string{}, Labels: map[string]string{"app": "a", v1beta2.LabelSecretFor: "one"},
		},
		Type: rapid.SampledFrom([]corev1.SecretType{
			"", corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeServiceAccountToken,
			corev1.SecretTypeBootstrapToken, "example.org/own",
		}).Draw(t, "type"),
		Data: map[string][]byte{},
	}
	if name := rapid.SampledFrom([]string{
		"", "", "login", "skr-agent-state", "kyma-pull-x", "Upper", "a/b", strings.Repeat("a", 253),
		strings.Repeat("a", 254), "é",
	}).Draw(t, "name"); name != "" {
		secret.Annotations[v1beta2.AnnotationSecretName] = name
	}
	if namespace := rapid.SampledFrom([]string{
		"", "", "mail", "kube-system", "default", "a.b", strings.Repeat("n", 64), "../x",
	}).Draw(t, "namespace"); namespace != "" {
		secret.Annotations[v1beta2.AnnotationSecretNamespace] = namespace
	}
	for k := range rapid.IntRange(0, 3).Draw(t, "keys") {
		secret.Data[fmt.Sprint("k", k)] = make([]byte,
			rapid.SampledFrom([]int{0, 1, 200, 5_000, bundle.MaxSealedBytes}).Draw(t, "bytes"))
	}
	return secret
}

// drawRemovals returns names of Secrets that are not in the bundle.
func drawRemovals(t *rapid.T, kept []bundle.RuntimeSecret) (removals []string) {
	for i := range rapid.SampledFrom([]int{0, 1, 255, 256, 257, 1_000}).Draw(t, "removals") {
		at := fmt.Sprintf("mail/old-%d%s", i, strings.Repeat("o", rapid.SampledFrom([]int{0, 200}).Draw(t, "length")))
		if !slices.ContainsFunc(kept, func(s bundle.RuntimeSecret) bool { return s.NamespacedName() == at }) {
			removals = append(removals, at)
		}
	}
	return removals
}
