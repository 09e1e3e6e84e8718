package cluster

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
)

func thingOf(name string) *unstructured.Unstructured {
	thing := &unstructured.Unstructured{}
	thing.SetAPIVersion("example.org/v1")
	thing.SetKind("Thing")
	thing.SetName(name)
	return thing
}

// kymas returns the definition of Kymas as the chart has it.
func kymas(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	data, err := charts.PublisherCRDs.ReadFile("kcp-publisher/files/crds/operator.kyma-project.io_kymas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &definition.Object); err != nil {
		t.Fatal(err)
	}
	return definition
}

func TestAClusterIsLentAgainAsIfItWereNew(t *testing.T) {
	ctx := t.Context()
	first := take(t, true)
	api := kubernetes.NewForConfigOrDie(first.Config)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	identity := func() string {
		system, err := api.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		must(nil, err)
		return string(system.UID)
	}
	served := func() (names []string) {
		_, lists, err := api.Discovery().ServerGroupsAndResources()
		must(nil, err)
		for _, list := range lists {
			for _, resource := range list.APIResources {
				names = append(names, list.GroupVersion+" "+resource.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	before, atFirst := identity(), served()

	// What stories leave: kinds of their own, namespaces that nobody would ever finish to delete, objects with finalizers, changes of what
	// was there, addresses that are taken, and requests that are noted.
	must(nil, installCRDs(first.Config, []fs.FS{os.DirFS("testdata")}))
	things, err := client.New(first.Config, client.Options{})
	must(nil, err)
	thing := thingOf("held")
	thing.SetFinalizers([]string{"example.org/held"})
	must(nil, things.Create(ctx, thing))
	must(nil, things.Delete(ctx, thing))
	// A definition that somebody applies as it is has one manager more, and nothing else is another.
	must(nil, things.Apply(ctx, client.ApplyConfigurationFromUnstructured(kymas(t)), client.FieldOwner("somebody"), client.ForceOwnership))
	must(api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}))
	must(api.CoreV1().ConfigMaps("left").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}))
	must(nil, api.CoreV1().Namespaces().Delete(ctx, "left", metav1.DeleteOptions{}))
	must(api.AppsV1().Deployments("default").Create(ctx, deployment("left"), metav1.CreateOptions{}))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "left"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	must(api.CoreV1().Services("default").Create(ctx, service.DeepCopy(), metav1.CreateOptions{}))
	must(nil, api.RbacV1().ClusterRoles().Delete(ctx, "view", metav1.DeleteOptions{}))
	admin, err := api.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{})
	must(nil, err)
	admin.Labels["left"] = "here"
	must(api.RbacV1().ClusterRoles().Update(ctx, admin, metav1.UpdateOptions{}))
	auditor, err := first.User("auditor")
	must(nil, err)
	_, err = kubernetes.NewForConfigOrDie(auditor).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	if noted, err := first.Requests(); err != nil || len(noted) != 1 {
		t.Errorf("the first had noted %v: %v", noted, err)
	}
	started := time.Now()
	must(nil, first.Stop())
	t.Logf("as new after %s", time.Since(started).Round(time.Millisecond))

	again := take(t, true)
	if again != first {
		t.Fatal("another cluster is lent, not that which was given back")
	}
	if after := identity(); after == before {
		t.Error("it has the identity that it had")
	}
	if now := served(); !slices.Equal(now, atFirst) {
		t.Errorf("%d resources are served, not %d", len(now), len(atFirst))
	}
	for what, get := range map[string]func() error{
		"the namespace": func() error { _, err := api.CoreV1().Namespaces().Get(ctx, "left", metav1.GetOptions{}); return err },
		"the ConfigMap": func() error {
			_, err := api.CoreV1().ConfigMaps("left").Get(ctx, "left", metav1.GetOptions{})
			return err
		},
		"the Deployment": func() error {
			_, err := api.AppsV1().Deployments("default").Get(ctx, "left", metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := api.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if admin, err := api.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{}); err != nil || admin.Labels["left"] != "" {
		t.Errorf("ClusterRole admin has labels %v: %v", admin.Labels, err)
	}
	if noted, err := again.Requests(); err != nil || len(noted) != 0 {
		t.Errorf("it has noted %v: %v", noted, err)
	}
	// And it works: the same names, kinds and addresses can be had.
	must(nil, installCRDs(again.Config, []fs.FS{os.DirFS("testdata")}))
	must(nil, things.Create(ctx, thingOf("held")))
	must(api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}))
	must(api.CoreV1().Services("left").Create(ctx, service.DeepCopy(), metav1.CreateOptions{}))
	stop(t, again)
}

func TestAClusterThatRemembersIsNotLentAgain(t *testing.T) {
	ctx := t.Context()
	for what, spoil := range map[string]func(*Cluster) error{
		"an admission policy": func(c *Cluster) error {
			policy := &admissionv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "left"},
				Spec: admissionv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionv1.RuleWithOperations{
							Operations: []admissionv1.OperationType{admissionv1.Create},
							Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
						},
					}}},
					Validations: []admissionv1.Validation{{Expression: "false"}},
				},
			}
			_, err := kubernetes.NewForConfigOrDie(c.Config).AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
			return err
		},
		"another definition": func(c *Cluster) error {
			api, err := client.New(c.Config, client.Options{})
			if err != nil {
				return err
			}
			other := kymas(t)
			if err := unstructured.SetNestedStringSlice(other.Object, []string{"left"}, "spec", "names", "categories"); err != nil {
				return err
			}
			return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("somebody"), client.ForceOwnership)
		},
		"a stopped API server": (*Cluster).Pause,
	} {
		c := take(t, false)
		if err := spoil(c); err != nil {
			t.Fatal(err)
		}
		stop(t, c)
		if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) || slices.Contains(clusters.idle, c) {
			t.Errorf("a cluster with %s is kept: %v", what, err)
		}
	}
}
