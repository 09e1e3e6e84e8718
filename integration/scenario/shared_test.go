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

// sharesPerFleet limits the number of scenarios that use one fleet.
const sharesPerFleet = 8

// sharedFleets lends parts of fleets, called shares, to scenarios. The fleets have default options and start on demand.
type sharedFleets struct {
	mu     sync.Mutex // guards the fields below
	fleets []*sharedFleet
	lent   int
}

type sharedFleet struct {
	*fleet.Fleet
	lent, returned int
}

// sharedRemovals are publisher flags that let several scenarios remove modules at the same time.
var sharedRemovals = []string{"--set", "removal-count=3", "--set", "removal-window=3s"}

// shared provides fleets for all scenarios without their own fleet.
var shared sharedFleets

// take returns a new share and the function that ends it.
func (s *sharedFleets) take() (*fleet.Fleet, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.fleets); n == 0 || s.fleets[n-1].lent == sharesPerFleet {
		// The fleet outlives the scenario.
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

// shareName returns the name of share n. It contains only letters, as module names do.
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

// shareFleet returns a share of a fleet. The share has the same modules as newFleet, but under its own names (see
// Fleet.Own). A scenario must use newFleet if it stops, restarts or intercepts part of the fleet, or depends on all
// objects in the control plane.
func shareFleet(t *testing.T) *fleet.Fleet {
	t.Helper()
	runInQueue(t)
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

// owned renames the version's module to its name in the share.
func owned(f *fleet.Fleet, v sample.Version) sample.Version {
	v.Module = f.Own(v.Module)
	return v
}

func scaler(f *fleet.Fleet, version string) sample.Version { return owned(f, sample.Scaler(version)) }
func mailer(f *fleet.Fleet, version string) sample.Version { return owned(f, sample.Mailer(version)) }
