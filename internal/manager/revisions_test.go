package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// versions is a client whose Get returns a lease with the next resource version in the list, or an error for "".
type versions struct {
	coordinationclient.LeaseInterface
	next []string
}

func (v *versions) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	version := v.next[0]
	v.next = v.next[1:]
	if version == "" {
		return nil, errors.New("no connection")
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}, nil
}

func TestDecreasingResourceVersionIsReportedAsRestore(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		want     bool
	}{
		"increasing versions":                    {[]string{"7", "8", "10"}, false},
		"equal versions":                         {[]string{"7", "7"}, false},
		"decreasing version":                     {[]string{"7", "10", "9"}, true},
		"decreasing version, fewer digits":       {[]string{"100", "99"}, true},
		"two decreasing versions":                {[]string{"7", "6", "5"}, true},
		"failed read":                            {[]string{"7", "", "8"}, false},
		"decreasing version after a failed read": {[]string{"7", "", "6"}, true},
		"versions that are not numbers":          {[]string{"b", "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRevisions()
			lease := observedLease{&versions{next: c.versions}, r}
			for range c.versions {
				_, _ = lease.Get(t.Context(), "one", metav1.GetOptions{})
			}
			l := &Lease{takenOver: make(chan struct{}), revisions: r}
			ctx, stop := context.WithCancel(t.Context())
			if !c.want {
				stop()
			}
			defer stop()
			if err := l.exitOnceLost(ctx); errors.Is(err, errRestored) != c.want {
				t.Errorf("got error %v, want errRestored: %t", err, c.want)
			}
		})
	}
}

func TestRestoreIsDetectedWithoutLease(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string // "" is a failed request
		want     bool
	}{
		"increasing versions":                    {[]string{"7", "8", "10"}, false},
		"decreasing version":                     {[]string{"7", "10", "9"}, true},
		"decreasing version after a failed read": {[]string{"100", "", "99"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(requests.Add(1)) - 1
				if n >= len(c.versions) {
					stop()
					return
				}
				if r.URL.Path != "/apis/operator.kyma-project.io/v1beta2/namespaces/fleet/kymas" || c.versions[n] == "" {
					http.Error(w, "unavailable", http.StatusServiceUnavailable)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
					"metadata": {"resourceVersion": %q}, "items": []}`, c.versions[n])
			}))
			defer server.Close()
			poll, err := newRevisionPoll(&rest.Config{Host: server.URL}, "fleet", time.Second/20)
			if err != nil {
				t.Fatal(err)
			}
			if err := poll.exitOnceRestored(ctx); errors.Is(err, errRestored) != c.want {
				t.Errorf("got error %v after %d requests, want errRestored: %t", err, requests.Load(), c.want)
			}
		})
	}
}

func TestManagerWithoutLeaderElectionDetectsARestore(t *testing.T) {
	var version atomic.Int32
	version.Store(100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
			"metadata": {"resourceVersion": "%d"}, "items": []}`, version.Add(-1))
	}))
	defer server.Close()
	f := parse(t, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	f.revisionInterval = time.Second / 20
	mgr, err := f.New(&rest.Config{Host: server.URL}, ctrl.Options{LeaderElectionNamespace: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := mgr.Start(ctx); !errors.Is(err, errRestored) {
		t.Errorf("got error %v, want errRestored", err)
	}
}
