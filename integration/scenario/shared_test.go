package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// sharesPerFleet limits how many scenarios use one fleet. Each leaves its catalog entries behind, and a fleet that
// breaks fails no scenarios but these.
const sharesPerFleet = 8

// sharedFleets lends shares of fleets with default options. It starts a fleet when it needs one and closes it after
// its last share.
type sharedFleets struct {
	mu     sync.Mutex // guards the fields below
	fleets []*sharedFleet
	lent   int
}

type sharedFleet struct {
	*fleet.Fleet
	lent, returned int
}

// sharedRemovals keep the deletions of scenarios that share a fleet from adding up to a change that waits for an
// approval.
var sharedRemovals = []string{"--removal-count", "3", "--removal-window", "3s"}

// shared lends the fleets of all scenarios that have no fleet of their own.
var shared sharedFleets

// take returns a new share. The first caller of a fleet starts it, and the next callers wait.
func (s *sharedFleets) take() (*fleet.Fleet, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.fleets); n == 0 || s.fleets[n-1].lent == sharesPerFleet {
		// Not the context of a scenario: the fleet outlives it.
		f, err := fleet.Start(context.Background(), fleet.Options{
			Progress: os.Stderr, Clusters: &clusters, PublisherFlags: sharedRemovals,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("start a shared fleet: %w", err)
		}
		s.fleets = append(s.fleets, &sharedFleet{Fleet: f})
	}
	f := s.fleets[len(s.fleets)-1]
	share := f.Share(shareName(s.lent))
	f.lent++
	s.lent++
	return share, func() error { return errors.Join(share.Close(), s.giveBack(f)) }, nil
}

// shareName returns the name of share n: letters only, as names of modules have nothing else.
func shareName(n int) string { return string([]rune{'s', 'a' + rune(n/26), 'a' + rune(n%26)}) }

func (s *sharedFleets) giveBack(f *sharedFleet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.returned++
	if f.returned < sharesPerFleet {
		return nil
	}
	s.fleets = slices.DeleteFunc(s.fleets, func(other *sharedFleet) bool { return other == f })
	return f.Close()
}

// close ends the fleets that still run.
func (s *sharedFleets) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for _, f := range s.fleets {
		problems = append(problems, f.Close())
	}
	s.fleets = nil
	return errors.Join(problems...)
}

// shareFleet returns a share of a fleet with default options. The share offers what newFleet offers, under names of
// its own (Own). A scenario that stops, restarts or intercepts a publisher, a registry or a control plane needs
// newFleet instead, and so does one that depends on all objects of the control plane or on the length of the
// publisher's log.
func shareFleet(t *testing.T) *fleet.Fleet {
	t.Helper()
	besideOthers(t)
	f, giveBack, err := shared.take()
	must(t, err)
	t.Cleanup(func() {
		dumpLogs(t, f)
		if err := giveBack(); err != nil {
			t.Error(err)
		}
	})
	offerSamples(t, f)
	return f
}

// owned gives a version of a module the name that the module has in a share.
func owned(f *fleet.Fleet, v sample.Version) sample.Version {
	v.Module = f.Own(v.Module)
	return v
}

func scaler(f *fleet.Fleet, version string) sample.Version { return owned(f, sample.Scaler(version)) }
func mailer(f *fleet.Fleet, version string) sample.Version { return owned(f, sample.Mailer(version)) }
