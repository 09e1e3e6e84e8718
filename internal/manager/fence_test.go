package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestProcessWithExpiredLeaseCannotWrite(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	l, now := leaseOn(&lock{})
	client, err := rest.HTTPClientFor(withFence(&rest.Config{Host: server.URL}, l))
	if err != nil {
		t.Fatal(err)
	}
	passes := func(method, path string) bool {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			if !errors.Is(err, errExpired) {
				t.Fatal(err)
			}
			return false
		}
		return response.Body.Close() == nil
	}
	const secrets, lease, review = "/api/v1/namespaces/kcp-system/secrets", "/apis/coordination.k8s.io/v1/leases/one",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews"
	check := func(when string, write bool) {
		t.Helper()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if passes(method, secrets) != write {
				t.Errorf("%s: %s is allowed: %t, want %t", when, method, !write, write)
			}
		}
		if !passes(http.MethodGet, secrets) || !passes(http.MethodPut, lease) || !passes(http.MethodPost, review) {
			t.Errorf("%s: a read, a lease renewal or an access review was refused", when)
		}
	}
	check("before the lease was acquired", true)
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	check("after the lease was acquired", true)
	*now = now.Add(Replicas.Lease)
	check("after the lease expired", false)
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	check("after the lease was renewed", true)
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	check("after the lease was released", true)
	*now = now.Add(time.Hour)
	check("an hour after the release", true)
}
