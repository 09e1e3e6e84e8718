package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// clusters is the pool for tests that borrow a cluster and do not stop it.
var clusters Pool

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if err := clusters.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// take borrows a cluster with the control plane's CRDs. Callers must stop the cluster.
func take(t *testing.T, workloads bool) *Cluster {
	t.Helper()
	started := time.Now()
	c, err := clusters.Take(t.Context(), Options{
		Progress: os.Stderr, Workloads: workloads, CRDs: []fs.FS{charts.PublisherCRDs},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster up after %s", time.Since(started).Round(time.Millisecond))
	return c
}

// lend borrows a cluster until the end of the test.
func lend(t *testing.T, workloads bool) *Cluster {
	t.Helper()
	c := take(t, workloads)
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func TestWorkloadsBecomeReadyUnlessBroken(t *testing.T) {
	c := lend(t, true)
	client := kubernetes.NewForConfigOrDie(c.Config)
	dyn := dynamic.NewForConfigOrDie(c.Config)
	apps := client.AppsV1()
	broken := deployment("broken")
	broken.Annotations = map[string]string{"kyma-pull.dev/simulate": "broken"}
	for _, d := range []*appsv1.Deployment{deployment("good"), deployment("turns-bad"), broken} {
		create(t, d.Name, func(ctx context.Context) error {
			_, err := apps.Deployments("default").Create(ctx, d, metav1.CreateOptions{})
			return err
		})
	}
	good := deployment("good")
	create(t, "statefulset", func(ctx context.Context) error {
		_, err := apps.StatefulSets("default").Create(ctx, &appsv1.StatefulSet{ObjectMeta: good.ObjectMeta,
			Spec: appsv1.StatefulSetSpec{
				Selector: good.Spec.Selector,
				Template: good.Spec.Template,
			}}, metav1.CreateOptions{})
		return err
	})
	create(t, "daemonset", func(ctx context.Context) error {
		_, err := apps.DaemonSets("default").Create(ctx, &appsv1.DaemonSet{ObjectMeta: good.ObjectMeta,
			Spec: appsv1.DaemonSetSpec{
				Selector: good.Spec.Selector,
				Template: good.Spec.Template,
			}}, metav1.CreateOptions{})
		return err
	})
	for _, resource := range []string{"deployments", "statefulsets", "daemonsets"} {
		awaitCurrent(t, c, dyn, resource, "good")
	}

	patch := func(name, body string) {
		t.Helper()
		if _, err := apps.Deployments("default").Patch(t.Context(), name, "application/merge-patch+json", []byte(body),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("good", `{"spec":{"replicas":3}}`)
	awaitCurrent(t, c, dyn, "deployments", "good")
	scaled, err := apps.Deployments("default").Get(t.Context(), "good", metav1.GetOptions{})
	if err != nil || scaled.Status.AvailableReplicas != 3 || scaled.Status.ObservedGeneration != 2 {
		t.Errorf("after scaling to 3 replicas: error %v, got status %+v", err, scaled.Status)
	}

	awaitCurrent(t, c, dyn, "deployments", "turns-bad")
	patch("turns-bad", `{"metadata":{"annotations":{"kyma-pull.dev/simulate":"broken"}},"spec":{"replicas":2}}`)
	// kwok processes objects in order.
	create(t, "later", func(ctx context.Context) error {
		_, err := apps.Deployments("default").Create(ctx, deployment("later"), metav1.CreateOptions{})
		return err
	})
	awaitCurrent(t, c, dyn, "deployments", "later")
	for _, name := range []string{"broken", "turns-bad"} {
		if current, seen := isCurrent(t.Context(), dyn, "deployments", name); current {
			t.Errorf("%s is current: %s", name, seen)
		}
	}
	patch("broken", `{"metadata":{"annotations":{"kyma-pull.dev/simulate":null}}}`)
	awaitCurrent(t, c, dyn, "deployments", "broken")
}

func TestClientsAndDataSurviveAPIServerRestart(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	c := lend(t, true)
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(c.Config)
	if _, err := client.CoreV1().ConfigMaps("default").
		Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}},
			metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Logf("paused after %s", time.Since(started).Round(time.Millisecond))
	if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err == nil {
		t.Error("a stopped API server responds")
	}
	started = time.Now()
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("resumed after %s", time.Since(started).Round(time.Millisecond))
	if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("get ConfigMap kept after Resume: %v", err)
	}
	kymas := schema.GroupVersionResource{Group: "operator.kyma-project.io", Version: "v1beta2", Resource: "kymas"}
	dyn := dynamic.NewForConfigOrDie(c.Config)
	if _, err := dyn.Resource(kymas).List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("list Kymas: %v", err)
	}
	create(t, "deployment", func(ctx context.Context) error {
		_, err := client.AppsV1().Deployments("default").Create(ctx, deployment("after"), metav1.CreateOptions{})
		return err
	})
	awaitCurrent(t, c, dyn, "deployments", "after")
}

func TestClusterHasAddressesForHundredsOfServices(t *testing.T) {
	c := lend(t, false)
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := clients.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := netip.ParsePrefix(ranges.Spec.CIDRs[0])
	if err != nil || prefix.Bits() > 16 {
		t.Errorf("range %v: %v", ranges.Spec.CIDRs, err)
	}
}

func TestUsersHaveRightsFromRBAC(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	c := lend(t, false)
	ctx := t.Context()
	config, err := c.User("reader", "auditors")
	if err != nil {
		t.Fatal(err)
	}
	reader := kubernetes.NewForConfigOrDie(config)
	if _, err := reader.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role got error %v, want Forbidden", err)
	}
	admin := kubernetes.NewForConfigOrDie(c.Config)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "auditor"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}},
		}}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "auditors"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "auditor"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "auditors"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(
		ctx,
		50*time.Millisecond,
		time.Minute,
		true,
		func(ctx context.Context) (bool, error) {
			_, err := reader.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return err == nil, nil
		},
	)
	if err != nil {
		t.Errorf("with a role: %v", err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v %v", info, err)
	}
}

// The killed process is this test binary.
func TestClusterEndsWhenItsProcessIsKilled(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	const note = "KYMA_PULL_TEST_KILLED_CLUSTER"
	if path := os.Getenv(note); path != "" {
		c, err := Start(t.Context(), Options{Workloads: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.place.Dir), 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	path := filepath.Join(t.TempDir(), "dir")
	victim := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	victim.Env = append(os.Environ(), note+"="+path)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	err := wait.PollUntilContextTimeout(
		t.Context(),
		50*time.Millisecond,
		3*time.Minute,
		true,
		func(context.Context) (bool, error) {
			content, _ := os.ReadFile(path)
			dir = string(content)
			return dir != "", nil
		},
	)
	pids, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
	var processes []int
	for _, file := range pids {
		content, _ := os.ReadFile(file)
		pid, convErr := strconv.Atoi(strings.TrimSpace(string(content)))
		err = errors.Join(err, convErr)
		processes = append(processes, pid)
	}
	err = errors.Join(err, victim.Process.Kill())
	_ = victim.Wait() // an error is expected, because the test killed the process
	if err != nil || len(processes) != 3 {
		t.Fatalf("start a cluster to be killed: %v, processes %v", err, processes)
	}
	err = wait.PollUntilContextTimeout(
		t.Context(),
		50*time.Millisecond,
		time.Minute,
		true,
		func(context.Context) (bool, error) {
			for _, pid := range processes {
				// A zombie counts as ended. In a container without an init process, zombies are never reaped.
				if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
					!strings.Contains(string(state), ") Z ") {
					return false, nil
				}
			}
			_, err := os.Stat(dir)
			return errors.Is(err, os.ErrNotExist), nil
		},
	)
	if err != nil {
		t.Errorf("processes %v or folder %s still exist: %v", processes, dir, err)
	}
}

func create(t *testing.T, what string, created func(context.Context) error) {
	t.Helper()
	if err := created(t.Context()); err != nil {
		t.Fatalf("create %s: %v", what, err)
	}
}

// awaitCurrent waits until kstatus reports the object as current.
func awaitCurrent(t *testing.T, c *Cluster, client dynamic.Interface, resource, name string) {
	t.Helper()
	seen := ""
	err := wait.PollUntilContextTimeout(
		t.Context(),
		50*time.Millisecond,
		time.Minute,
		true,
		func(ctx context.Context) (current bool, _ error) {
			current, seen = isCurrent(ctx, client, resource, name)
			return current, nil
		},
	)
	if err != nil {
		t.Fatalf("%s %s is not current: %v\nseen: %s\nkwok: %s", resource, name, err, seen,
			tail(filepath.Join(c.place.Dir, "kwok.log")))
	}
}

func isCurrent(ctx context.Context, client dynamic.Interface, resource, name string) (bool, string) {
	object, err := client.Resource(appsv1.SchemeGroupVersion.WithResource(resource)).
		Namespace("default").
		Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	result, err := status.Compute(object)
	if err != nil {
		return false, err.Error()
	}
	state, _, _ := unstructured.NestedMap(object.Object, "status")
	return result.Status == status.CurrentStatus, fmt.Sprintf("%s: %s: %v", result.Status, result.Message, state)
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example/app:1"}}},
			},
		},
	}
}
