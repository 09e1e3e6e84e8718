package chaos

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// unavailable is a client whose deletions fail with err.
type unavailable struct {
	client.Client
	err error
}

func (u *unavailable) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return u.err
}

func TestFailedDeletionOfAKymaIsNotRecorded(t *testing.T) {
	api := &unavailable{err: syscall.ECONNREFUSED}
	s := &stage{
		checker: NewChecker(scaler, concurrentOthers), began: time.Now(), gone: map[string]bool{}, mailers: map[string]bool{},
		fleet: &fleet.Fleet{Control: api}, sims: map[string]*fleet.Simulated{"extra-1": nil},
	}
	s.checker.Asked(s.since(), "extra-1", scaler)
	s.checker.Listed(s.since(), []string{"extra-1"})
	if err := s.deleteKyma(t.Context(), "extra-1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got error %v, want a refused connection", err)
	}
	if active := s.active(); !slices.Equal(active, []string{"extra-1"}) || !s.checker.Wanted("extra-1")[scaler] {
		t.Errorf("after a refused deletion, got active runtimes %q that want %v", active, s.checker.Wanted("extra-1"))
	}
	api.err = nil
	if err := s.deleteKyma(t.Context(), "extra-1"); err != nil {
		t.Fatal(err)
	}
	s.checker.Listed(s.since(), nil)
	if active := s.active(); len(active) > 0 || s.checker.Wanted("extra-1")[scaler] || len(s.checker.Violations()) > 0 {
		t.Errorf("after a deletion, got active runtimes %q that want %v, and violations %v", active,
			s.checker.Wanted("extra-1"), s.checker.Violations())
	}
}
