package manager

import (
	"context"
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// versions returns a lease with the next resource version at each Get, or an error for the version "".
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
		"versions that are not a number":         {[]string{"b", "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRevisions()
			lease := observedLease{&versions{next: c.versions}, r}
			for range c.versions {
				_, _ = lease.Get(t.Context(), "one", metav1.GetOptions{})
			}
			l := &Lease{taken: make(chan struct{}), revisions: r}
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
