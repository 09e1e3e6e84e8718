package chaos

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// mailerRelease returns the ModuleReleaseMeta of module mailer. A mandatory module is in no channel.
func mailerRelease(mandatory bool) *v1beta2.ModuleReleaseMeta {
	if !mandatory {
		return sample.Release(mailer, sample.Mailer("").Component(), sample.Channel(channel, mailerVersion))
	}
	meta := sample.Release(mailer, sample.Mailer("").Component())
	meta.Spec.Mandatory = &v1beta2.Mandatory{Version: mailerVersion}
	return meta
}

// requireMailer commits a change that makes module mailer mandatory or optional. If the module becomes optional, an
// operator approves its removal from the runtimes that do not request it.
func (s *stage) requireMailer(ctx context.Context, mandatory bool) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.mu.Lock()
	s.isMandatory = mandatory
	s.mu.Unlock()
	if mandatory {
		s.checker.MadeMandatory(mailer)
	}
	for _, id := range s.active() {
		s.announceMailer(id)
	}
	err := s.repo.push(ctx, fmt.Sprintf("mandatory %t", mandatory), map[string]any{
		"releases/" + mailer: mailerRelease(mandatory),
	})
	if err == nil && !mandatory {
		s.approveRemovals(ctx) // converge approves removals that the publisher holds later
	}
	return err
}

// requestsMailer reports whether the admin of a runtime requests module mailer.
func (s *stage) requestsMailer(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mailers[id]
}

// announceMailer announces to the checker whether a runtime must have module mailer.
func (s *stage) announceMailer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mailers[id] || s.isMandatory {
		s.checker.Asked(s.since(), id, mailer)
	} else {
		s.checker.RequestWithdrawn(s.since(), id, mailer)
	}
}

// MadeMandatory announces that a module becomes mandatory.
func (c *Checker) MadeMandatory(module string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mandatory[module] = true
}
