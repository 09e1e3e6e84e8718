package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// caReloadTime is how long the publisher needs to load a changed --registry-ca.
const caReloadTime = 35 * time.Second

// announceTimeout is the maximum time until an announcement reaches all runtimes, including runtimes that are
// temporarily cut off.
const announceTimeout = 4 * time.Minute

func (s *stage) caFile() string { return filepath.Join(s.dir, "registry-ca.pem") }

// tlsOptions adds TLS to the registry's options, with a certificate for each ReplaceCA step.
func (s *stage) tlsOptions(options *registry.Options) {
	if !s.shape.Authorities {
		return
	}
	options.TLS = true
	for _, step := range s.plan {
		if step.Kind == ReplaceCA {
			options.NextCertificates++
		}
	}
}

// trustRegistry adds the registry's CA to the fleet's options. The test itself also trusts the next CAs.
func (s *stage) trustRegistry(options *fleet.Options) error {
	if !s.shape.Authorities {
		return nil
	}
	options.RegistryCA = s.caFile()
	options.OwnerCA = bytes.Join(append(s.registry.NextCAs(), s.registry.CA()), nil)
	return os.WriteFile(s.caFile(), s.registry.CA(), 0o600)
}

// replaceCA follows docs/guides/move-the-registry.md: the publishers announce the next CA. After all runtimes have
// received the announcement, the registry gets a certificate from the next CA. The function end enrolls the runtimes
// with that CA.
func (s *stage) replaceCA(ctx context.Context) (end func() error, err error) {
	current, next := s.registry.CA(), s.registry.NextCAs()[0]
	path := filepath.Join(s.dir, "next-ca.pem")
	if err := os.WriteFile(path, next, 0o600); err != nil {
		return nil, err
	}
	s.announce(ctx, "--next-registry-ca", path)
	s.insistFor(ctx, announceTimeout, "announce the next CA", func() error {
		if late := s.checker.WithoutNextCA(strings.TrimSpace(string(next)), s.active()); len(late) > 0 {
			return fmt.Errorf("%v have not applied a bundle that announces the new CA", late)
		}
		return nil
	})
	s.story.Add("all runtimes have the announcement of the next CA")
	if err := os.WriteFile(s.caFile(), slices.Concat(current, next), 0o600); err != nil {
		return nil, err
	}
	select {
	case <-time.After(caReloadTime):
	case <-ctx.Done():
	}
	s.story.Add("the registry has a certificate from the next CA")
	replaced := s.since()
	s.registry.ReplaceCertificate()
	ctx = context.WithoutCancel(ctx)
	return func() error {
		s.insist(ctx, "report with the next CA", func() error {
			if silent := s.checker.Silent(replaced, s.active()); len(silent) > 0 {
				return fmt.Errorf("%v have not reported since the registry's CA changed", silent)
			}
			return nil
		})
		if err := os.WriteFile(s.caFile(), next, 0o600); err != nil {
			return err
		}
		for id := range s.reals {
			s.renewTrust(ctx, id)
		}
		s.announce(ctx)
		return nil
	}, nil
}

// renewTrust enrolls a runtime with the current CA, and replaces the runtime's snapshot, which contains the former CA.
func (s *stage) renewTrust(ctx context.Context, id string) {
	defer s.locks.take("API server of " + id)()
	s.insist(ctx, "enroll "+id+" with the next CA", func() error {
		s.once.Lock() // enroll reads the key folder, which other steps change
		defer s.once.Unlock()
		return s.reals[id].Enroll(ctx)
	})
	if s.hasSnapshots() {
		s.insist(ctx, "take a snapshot of "+id, func() error { return s.takeSnapshot(id) })
	}
}

// announce restarts the publishers, one after another, with these flags. These flags replace the flags from the
// previous call.
func (s *stage) announce(ctx context.Context, flags ...string) {
	s.mu.Lock()
	s.announcement = flags
	s.mu.Unlock()
	for _, id := range s.shape.replicas() {
		unlock := s.locks.take(replica(id))
		start, err := s.kill(s.programs[id])
		if err != nil {
			s.story.Add("stop publisher %s: %v", id, err)
		}
		s.insist(ctx, "start publisher "+id, start)
		unlock()
	}
}

// active returns the runtimes whose Kymas are not deleted.
func (s *stage) active() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.sims {
		if !s.gone[id] {
			ids = append(ids, id)
		}
	}
	for id := range s.reals {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
