package cluster

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

func thingOf(name string) *unstructured.Unstructured {
	thing := &unstructured.Unstructured{}
	thing.SetAPIVersion("example.org/v1")
	thing.SetKind("Thing")
	thing.SetName(name)
	return thing
}

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

// replaceCRD deletes one of the CRDs in the publisher's chart and creates it again.
func replaceCRD(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(kymas(t).GroupVersionKind())
	crd.SetName(name)
	if err := api.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(crd), crd)), nil
		}); err != nil {
		t.Fatal(err)
	}
	if err := installCRDs(config, []fs.FS{charts.PublisherCRDs}); err != nil {
		t.Fatal(err)
	}
}

// identity returns the UID of Namespace kube-system, which identifies a cluster.
func identity(t *testing.T, config *rest.Config) string {
	t.Helper()
	system, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(system.UID)
}

func TestReturnedClusterIsResetAndLentAgain(t *testing.T) {
	ctx := t.Context()
	_, socket := startLender(t)
	first := borrow(t, socket)
	api := kubernetes.NewForConfigOrDie(first.Config)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
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
	before, atFirst := identity(t, first.Config), served()

	// The first borrower leaves changes: kinds, terminating namespaces, objects with finalizers, used addresses, and
	// recorded requests.
	must(nil, installCRDs(first.Config, []fs.FS{os.DirFS("testdata")}))
	things, err := client.New(first.Config, client.Options{})
	must(nil, err)
	thing := thingOf("held")
	thing.SetFinalizers([]string{"example.org/held"})
	must(nil, things.Create(ctx, thing))
	must(nil, things.Delete(ctx, thing))
	// If a second field manager applies an unchanged CRD, only the managed fields of the CRD differ.
	must(nil, things.Apply(ctx, client.ApplyConfigurationFromUnstructured(kymas(t)), client.FieldOwner("somebody"),
		client.ForceOwnership))
	replaceCRD(t, first.Config, "watchers.operator.kyma-project.io")
	must(
		api.CoreV1().
			Namespaces().
			Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}),
	)
	must(
		api.CoreV1().
			ConfigMaps("left").
			Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}),
	)
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
	auditor, err := first.User(Audited()[0])
	must(nil, err)
	_, err = kubernetes.NewForConfigOrDie(auditor).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	if noted, err := first.Requests(); err != nil || len(noted) != 1 {
		t.Errorf("got requests %v of the first borrower, want one: %v", noted, err)
	}
	leaveAdmissionRules(t, api)
	started := time.Now()
	must(nil, first.Stop())
	t.Logf("the cluster was reset after %s", time.Since(started).Round(time.Millisecond))

	again := borrow(t, socket)
	if again.place.Dir != first.place.Dir {
		t.Fatal("the lender started another cluster instead of lending the returned one")
	}
	if after := identity(t, again.Config); after == before {
		t.Error("the reset cluster has the UID of the previous cluster")
	}
	if now := served(); !slices.Equal(now, atFirst) {
		t.Errorf("the reset cluster serves %d resources, want %d", len(now), len(atFirst))
	}
	for what, get := range map[string]func() error{
		"the namespace": func() error {
			_, err := api.CoreV1().Namespaces().Get(ctx, "left", metav1.GetOptions{})
			return err
		},
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
	if admin, err := api.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{}); err != nil ||
		admin.Labels["left"] != "" {
		t.Errorf("ClusterRole admin has labels %v: %v", admin.Labels, err)
	}
	if noted, err := again.Requests(); err != nil || len(noted) != 0 {
		t.Errorf("requests of the second borrower: %v: %v", noted, err)
	}
	for _, label := range []string{"webhook", "policy"} {
		if err := refused(ctx, api, label); err != nil {
			t.Errorf("the reset cluster refuses an object with label %s: %v", label, err)
		}
	}
	// The next borrower can use the same names, kinds and addresses.
	must(nil, installCRDs(again.Config, []fs.FS{os.DirFS("testdata")}))
	must(nil, things.Create(ctx, thingOf("held")))
	must(
		api.CoreV1().
			Namespaces().
			Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}),
	)
	must(api.CoreV1().Services("left").Create(ctx, service.DeepCopy(), metav1.CreateOptions{}))
	stop(t, again)
}

func TestPoolStopsClusterThatCannotBeRestored(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	ctx := t.Context()
	var pool Pool
	c, err := pool.take(ctx, sharedOptions(Options{CRDs: []fs.FS{charts.PublisherCRDs}, Progress: os.Stderr}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.place().Config()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := kymas(t)
	if err := unstructured.SetNestedStringSlice(other.Object, []string{"left"}, "spec", "names",
		"categories"); err != nil {
		t.Fatal(err)
	}
	if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("somebody"),
		client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := pool.giveBack(c); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) || len(pool.idle) > 0 {
		t.Errorf("a cluster with a changed CRD was not stopped: %v", err)
	}
	if err := (&server{paused: true}).renew(); err == nil {
		t.Error("a cluster with a stopped API server was restored")
	}
}

func TestLenderStopsClusterOfDisconnectedBorrower(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	l, socket := startLender(t)
	loan, err := lender.Borrow(t.Context(), socket, lender.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if err := loan.Disconnect(); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(
		t.Context(),
		50*time.Millisecond,
		time.Minute,
		true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(loan.Dir)
			return errors.Is(err, os.ErrNotExist), nil
		},
	)
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if err != nil || len(l.pool.idle) > 0 {
		t.Errorf("%d clusters are idle, and the folder still exists: %v", len(l.pool.idle), err)
	}
}

func TestLenderRejectsCallsWithoutLoan(t *testing.T) {
	_, socket := startLender(t)
	connection, err := rpc.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	var none bool
	if err := connection.Call(lender.Service+".Pause", "", &none); err == nil || err.Error() != errNoLoan.Error() {
		t.Errorf("got %v", err)
	}
}

func TestAllChartsShareOneClusterType(t *testing.T) {
	for name, options := range map[string]Options{
		"cluster of a control plane":     {CRDs: []fs.FS{charts.PublisherCRDs}},
		"cluster of a runtime":           {CRDs: []fs.FS{charts.AgentCRDs}, Workloads: true},
		"cluster with recorded requests": {CRDs: []fs.FS{charts.PublisherCRDs, charts.AgentCRDs}, Audit: Audited()},
	} {
		if !canBeLent(sharedOptions(options)) {
			t.Errorf("%s cannot share the pooled cluster", name)
		}
	}
	for name, options := range map[string]Options{
		"cluster without CRDs":                         {},
		"cluster with CRDs of another project":         {CRDs: []fs.FS{charts.AgentCRDs, os.DirFS("testdata")}},
		"cluster that records requests of other users": {CRDs: []fs.FS{charts.AgentCRDs}, Audit: []string{"auditor"}},
	} {
		if canBeLent(sharedOptions(options)) {
			t.Errorf("%s: canBeLent returned true, want false", name)
		}
	}
	brought, err := fs.Glob(charts.AgentCRDs, "skr-agent/crds/*.yaml")
	if err != nil || len(brought) == 0 {
		t.Fatalf("found %d CRDs of the agent: %v", len(brought), err)
	}
	for _, path := range brought {
		agents, err := charts.AgentCRDs.ReadFile(path)
		publishers, other := charts.PublisherCRDs.ReadFile(strings.Replace(path, "skr-agent/crds",
			"kcp-publisher/files/crds", 1))
		if err := errors.Join(err, other); err != nil || !bytes.Equal(agents, publishers) {
			t.Errorf("%s differs from the publisher's: %v", path, err)
		}
	}
}

func startLender(t *testing.T) (*Lender, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "clusters")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLender(os.Stderr)
	served := make(chan error, 1)
	go func() { served <- l.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(listener.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return l, socket
}

// borrow returns a cluster with workloads.
func borrow(t *testing.T, socket string) *Cluster {
	t.Helper()
	loan, err := lender.Borrow(t.Context(), socket, lender.Want{Workloads: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := open(loan.Place, borrowedCluster{loan})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
