package anywhere

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// That the charts' rights suffice is proven by all the other scenarios, whose programs have nothing else.
func TestChartsGiveTheProgramsNoMoreThanTheyNeed(t *testing.T) {
	scene(t)
	onKind(t, "programs that the charts installed")
	ctx := t.Context()
	publisher := impersonate(t, "kcp", sample.Namespace, "kcp-publisher")
	must(t, publisher.List(ctx, &v1beta2.KymaList{}, client.InNamespace(sample.Namespace)))
	if err := publisher.List(ctx, &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem)); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher reads Secrets of kube-system: %v", err)
	}
	if err := publisher.Delete(ctx, samplemodule.Good().Template()); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher deletes from the catalog that it reads: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "escape"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	if err := publisher.Create(ctx, pod); !apierrors.IsForbidden(err) {
		t.Errorf("the publisher creates Pods: %v", err)
	}
	tenant := impersonate(t, stage.berlin.ID, metav1.NamespaceDefault, "default")
	key := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"}
	if err := tenant.Get(ctx, key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("a runtime's workload reads the agent's key: %v", err)
	}
}

// impersonate gives the API as a ServiceAccount has it.
func impersonate(t *testing.T, cluster, namespace, account string) client.Client {
	t.Helper()
	kubeconfig := stage.kind.Kubeconfigs()[cluster]
	admin, err := fleet.Connect(kubeconfig, "")
	must(t, err)
	// With an account that is not there everything would be refused, and nothing proven.
	must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: account}, &corev1.ServiceAccount{}))
	api, err := fleet.Connect(kubeconfig, "system:serviceaccount:"+namespace+":"+account)
	must(t, err)
	return api
}
