package watch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/lender"
)

// world is an API server with the watches of an agent. The agent can watch only resources that were passed to allow.
type world struct {
	*testing.T
	admin   kubernetes.Interface
	watches *Watches
	woken   chan time.Duration
	// reports counts the reports. The count is also the next report's sequence number.
	reports int64
}

func newWorld(t *testing.T) *world {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	server, err := lender.Start(t.Context(), &envtest.Environment{})
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	admin := server.Config
	agent := rest.CopyConfig(admin)
	agent.Impersonate = rest.ImpersonationConfig{UserName: "agent"}
	meta, err := metadata.NewForConfig(agent)
	must(t, err)
	objects, err := dynamic.NewForConfig(agent)
	must(t, err)
	w := &world{
		T:       t,
		admin:   kubernetes.NewForConfigOrDie(admin),
		watches: New(meta, objects),
		woken:   make(chan time.Duration, 100),
	}
	w.watches.Start(t.Context(), func(wait time.Duration) { w.woken <- wait })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allow permits the agent to watch resources in the core group.
func (w *world) allow(resources ...string) {
	w.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: resources, Verbs: []string{"list", "watch"}},
		},
	}
	role, err := w.admin.RbacV1().ClusterRoles().Create(w.Context(), role, metav1.CreateOptions{})
	must(w.T, err)
	_, err = w.admin.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "agent-",
		}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "agent"}},
	}, metav1.CreateOptions{})
	must(w.T, err)
}

// report returns the reported changes of a watcher. Each call is one hour after the previous one.
func (w *world) report(watcher string) bundle.ReportedWatch {
	w.reports++
	reports, _ := w.watches.Report(w.reports, time.Now().Add(time.Duration(w.reports)*time.Hour))
	for _, one := range reports {
		if one.Watcher == watcher {
			return one
		}
	}
	return bundle.ReportedWatch{}
}

// until waits until seen returns true for a watcher's report.
func (w *world) until(watcher, what string, seen func(bundle.ReportedWatch) bool) {
	w.Helper()
	limit := time.After(2 * time.Minute)
	for {
		reported := w.report(watcher)
		if seen(reported) {
			return
		}
		select {
		case <-w.woken:
		case <-limit:
			w.Fatalf("timed out waiting for %s, last report: %+v", what, reported)
		}
	}
}

func (w *world) config(name string) *corev1.ConfigMap {
	w.Helper()
	made, err := w.admin.CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "shop"}},
	}, metav1.CreateOptions{})
	must(w.T, err)
	return made
}

func watcherOf(resource string) bundle.Watcher {
	return bundle.Watcher{
		Name:     resource,
		Version:  "v1",
		Resource: resource,
		Labels:   map[string]string{"team": "shop"},
		Field:    bundle.FieldSpec,
	}
}

// synced waits until a watch has received its first list.
func (w *world) synced(watcher string) {
	w.Helper()
	w.watches.mu.Lock()
	synced := w.watches.running[watcher].synced
	w.watches.mu.Unlock()
	limit, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(limit.Done(), synced) {
		w.Fatalf("watcher %s has not received its first list", watcher)
	}
}

func TestWatchesReportChangesFromAPIServer(t *testing.T) {
	w := newWorld(t)
	w.allow("configmaps", "services")
	w.config("there-before")
	status := watcherOf("services")
	status.Field = bundle.FieldStatus
	must(t, w.watches.Set([]bundle.Watcher{watcherOf("configmaps"), watcherOf("pods"), status}))

	t.Run("a forbidden watch is reported until it is allowed", func(*testing.T) {
		w.until("pods", "trouble", func(reported bundle.ReportedWatch) bool {
			return strings.Contains(reported.Trouble, "ClusterRole")
		})
		w.allow("pods")
		w.until("pods", "no trouble", func(reported bundle.ReportedWatch) bool { return reported.Trouble == "" })
	})
	t.Run("changes are reported by name, without existing objects", func(t *testing.T) {
		w.synced("configmaps")
		made := w.config("new")
		w.until("configmaps", "the new object", func(reported bundle.ReportedWatch) bool {
			return reported.Changes == 1 && reported.Objects[0].Name == "new"
		})
		delete(made.Labels, "team")
		_, err := w.admin.CoreV1().ConfigMaps("default").Update(t.Context(), made, metav1.UpdateOptions{})
		must(t, err)
		w.until("configmaps", "the removed label",
			func(reported bundle.ReportedWatch) bool { return reported.Changes == 2 })
		must(t, w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "there-before", metav1.DeleteOptions{}))
		w.until("configmaps", "the deleted object", func(reported bundle.ReportedWatch) bool {
			return reported.Changes == 3 && reported.Objects[0].Name == "there-before"
		})
	})
	t.Run("only status changes are reported for field status", func(t *testing.T) {
		services := w.admin.CoreV1().Services("default")
		create := func(name string) *corev1.Service {
			made, err := services.Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "shop"}},
				Spec: corev1.ServiceSpec{
					Ports: []corev1.ServicePort{{Port: 80}}, Type: corev1.ServiceTypeLoadBalancer,
				},
			}, metav1.CreateOptions{})
			must(t, err)
			return made
		}
		w.synced("services")
		service := create("shop")
		w.until("services", "the new object", func(reported bundle.ReportedWatch) bool { return reported.Changes == 1 })
		service.Spec.Ports[0].Name = "web"
		service, err := services.Update(t.Context(), service, metav1.UpdateOptions{})
		must(t, err)
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		_, err = services.UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
		must(t, err)
		create("fence")
		w.until("services", "the status change", func(reported bundle.ReportedWatch) bool {
			return reported.Changes == 3 && reported.Objects[0].Name == "fence" && reported.Objects[1].Name == "shop"
		})
	})
	t.Run("unchanged watchers continue, and a changed watcher starts again", func(t *testing.T) {
		other := watcherOf("configmaps")
		must(t, w.watches.Set([]bundle.Watcher{other, status}))
		if reported := w.report("configmaps"); reported.Changes != 3 {
			t.Errorf("got report %+v, want 3 changes", reported)
		}
		other.Labels = nil
		must(t, w.watches.Set([]bundle.Watcher{other}))
		if reports, _ := w.watches.Report(1000, time.Now()); len(reports) != 0 {
			t.Errorf("got reports %+v, want no changes", reports)
		}
	})
	t.Run("a watch with too many objects stops and reports trouble", func(t *testing.T) {
		must(t, w.watches.Set(nil))
		w.watches.limit = 3
		must(t, w.watches.Set([]bundle.Watcher{watcherOf("configmaps")}))
		w.synced("configmaps")
		for i := range 5 {
			w.config(fmt.Sprint("many-", i))
		}
		w.until("configmaps", "trouble", func(reported bundle.ReportedWatch) bool {
			return strings.Contains(reported.Trouble, "more than 3 configmaps")
		})
	})
}
