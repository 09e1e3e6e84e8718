package token

import (
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Passwords verifies users' passwords. It is safe for concurrent use if its functions are.
type Passwords struct {
	// Secrets returns the secrets for deriving passwords, newest first. While it returns an error, all users are
	// refused.
	Secrets func() (trust.TokenSecrets, error)
	// InForce returns the lowest valid generation for a user's password. While it returns an error, all users are
	// refused.
	InForce func(user string) (int, error)
}

// Check returns an error unless the password is valid for the user. It returns the index of the password's secret,
// which is 0 for the newest.
func (p Passwords) Check(user, password string) (which int, err error) {
	// After this check, the user's name is safe to log.
	if CheckUser(user) != nil {
		return 0, errRefused
	}
	generation, err := p.InForce(user)
	if err != nil {
		return 0, fmt.Errorf("generations: %w", err)
	}
	secrets, err := p.Secrets()
	if err != nil {
		return 0, fmt.Errorf("token secrets: %w", err)
	}
	return authenticate(secrets, user, password, generation)
}

// IsRefused reports whether an error from Check means that the password is invalid.
func IsRefused(err error) bool { return errors.Is(err, errRefused) }
