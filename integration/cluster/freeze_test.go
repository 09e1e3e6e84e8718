package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// suspended reports whether a program is suspended. It waits until a signal has taken effect.
func suspended(t *testing.T, s *server, program string) bool {
	t.Helper()
	pid, err := s.reaper.process(program)
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(state), ") T ")
}

func untilAll(t *testing.T, s *server, want bool) {
	t.Helper()
	for _, program := range []string{"kwok", "kube-apiserver", "etcd"} {
		err := wait.PollUntilContextTimeout(
			t.Context(),
			10*time.Millisecond,
			resumeTimeout,
			true,
			func(context.Context) (bool, error) {
				return suspended(t, s, program) == want, nil
			},
		)
		if err != nil {
			t.Errorf("%s: suspended: %t, want %t", program, !want, want)
		}
	}
}

func TestIdlePooledClusterIsFrozen(t *testing.T) {
	suite.Long(t) // the short suite runs TestReturnedClusterIsResetAndLentAgain
	ctx := t.Context()
	pool := &Pool{}
	first, err := pool.Take(ctx, Options{Workloads: true, Audit: []string{"nobody-of-the-lender"}})
	if err != nil {
		t.Fatal(err)
	}
	s := first.host.(pooledCluster).server
	untilAll(t, s, false)
	stop(t, first)
	untilAll(t, s, true)

	again, err := pool.Take(ctx, Options{Workloads: true, Audit: []string{"nobody-of-the-lender"}})
	if err != nil {
		t.Fatal(err)
	}
	if again.host.(pooledCluster).server != s {
		t.Error("the pool started another cluster instead of lending the frozen one")
	}
	untilAll(t, s, false)
	maps := kubernetes.NewForConfigOrDie(again.Config).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("use a cluster after freezing: %v", err)
	}
	stop(t, again)
	if err := pool.Close(); err != nil {
		t.Errorf("end a frozen cluster: %v", err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the cluster's folder still exists: %v", err)
	}
}

// A suspended program ignores SIGTERM, like an API server whose connections hang.
func TestHangingAPIServerIsKilledAndStartsAgain(t *testing.T) {
	suite.Long(t) // only make chaos causes connections that hang
	pool := &Pool{}
	c, err := pool.Take(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop(t, c)
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := c.host.(pooledCluster).server
	s.stopTimeout = 100 * time.Millisecond
	if err := s.signal(syscall.SIGSTOP, "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Namespaces().Get(t.Context(), "default",
		metav1.GetOptions{}); err != nil {
		t.Errorf("read a namespace after the restart: %v", err)
	}
}
