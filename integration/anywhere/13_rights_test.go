package anywhere

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// That the charts' rights suffice is proven by all the other scenarios, whose programs have nothing else.
func TestChartsGiveTheProgramsNoMoreThanTheyNeed(t *testing.T) {
	scene(t)
	onKind(t, "programs that the charts installed")
	ctx := t.Context()
	publisher := impersonate(t, "kcp", sample.Namespace, "kcp-publisher")
	if err := publisher.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(metav1.NamespaceSystem)); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher lists ConfigMaps of kube-system: %v", err)
	}
	key := client.ObjectKey{Namespace: sample.Namespace, Name: "publisher-keys"}
	if err := publisher.Get(ctx, key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher reads Secrets over the API: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "escape"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	if err := publisher.Create(ctx, pod); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher creates Pods: %v", err)
	}
	tenant := impersonate(t, stage.berlin.ID, metav1.NamespaceDefault, "default")
	key = client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"}
	if err := tenant.Get(ctx, key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("a runtime's workload reads the agent's key: %v", err)
	}
}

// impersonate gives the API as a ServiceAccount has it.
func impersonate(t *testing.T, cluster, namespace, account string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", stage.kind.Kubeconfigs()[cluster])
	must(t, err)
	config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	api, err := client.New(config, client.Options{})
	must(t, err)
	// With an account that is not there everything would be refused, and nothing proven.
	admin, err := clientcmd.BuildConfigFromFlags("", stage.kind.Kubeconfigs()[cluster])
	must(t, err)
	all, err := client.New(admin, client.Options{})
	must(t, err)
	must(t, all.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: account}, &corev1.ServiceAccount{}))
	return api
}
