package token

import (
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Passwords tells whether a user's password counts. It is safe for concurrent use where its functions are.
type Passwords struct {
	// Secrets returns what passwords are derived from, the newest first. An error refuses everybody for as long as it
	// lasts.
	Secrets func() (trust.TokenSecrets, error)
	// InForce returns the lowest generation of a user's password that counts. An error refuses everybody for as long as it
	// lasts.
	InForce func(user string) (int, error)
}

// Check returns an error unless the password is the user's and in force. Which is the place of the secret that it was
// derived from: 0 is the newest.
func (p Passwords) Check(user, password string) (which int, err error) {
	// Only users whose names can be trusted in a log get further than here.
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

// IsRefused reports whether an error of Check says that the password does not count, and not that this is not known.
func IsRefused(err error) bool { return errors.Is(err, errRefused) }
