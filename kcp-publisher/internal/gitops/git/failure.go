package git

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Cause is why a repository did not give what was asked for.
type Cause int

// Causes.
const (
	// Unreachable is every other cause: no answer, no such repository, branch or tag, or more than is read.
	Unreachable Cause = iota
	// CredentialsRefused says that the repository does not accept the credentials.
	CredentialsRefused
	// HostKeyRefused says that known_hosts does not have the key of the SSH server.
	HostKeyRefused
)

// FetchError says that a repository did not give a commit. Every other error is about the commit that it gave.
type FetchError struct {
	Cause Cause
	err   error
}

func (e *FetchError) Error() string { return e.err.Error() }

func (e *FetchError) Unwrap() error { return e.err }

// hostKeyError names the key that an SSH server showed, and what known_hosts has instead.
type hostKeyError struct {
	file        string
	host        string
	fingerprint string
	err         error
}

func (e *hostKeyError) Error() string {
	const advice = "ask those who run the server whether that is its key, and put it into known_hosts if so"
	var mismatch *knownhosts.KeyError
	if errors.As(e.err, &mismatch) && len(mismatch.Want) > 0 {
		return fmt.Sprintf("known_hosts (%s) has another key for %s than the server's, %s: %s", e.file, e.host, e.fingerprint, advice)
	}
	if errors.As(e.err, &mismatch) {
		return fmt.Sprintf("known_hosts (%s) has no key for %s; the server's is %s: %s", e.file, e.host, e.fingerprint, advice)
	}
	return fmt.Sprintf("known_hosts (%s) does not accept the key of %s, %s: %v", e.file, e.host, e.fingerprint, e.err)
}

func (e *hostKeyError) Unwrap() error { return e.err }

// fetchError says which cause an error has.
func (r *Repository) fetchError(what string, err error) error {
	failure := &FetchError{err: err}
	var hostKey *hostKeyError
	var algorithms *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &hostKey):
		failure.Cause, failure.err = HostKeyRefused, hostKey // without the library's preface
	case errors.As(err, &algorithms) && algorithms.What == "host key":
		failure.Cause = HostKeyRefused
		failure.err = fmt.Errorf("known_hosts (%s) has no key for %s of a kind that the server has, %s: "+
			"ask those who run the server for its key, and put it into known_hosts", r.Credentials.knownHosts, r.endpoint.Host, strings.Join(algorithms.RequestedAlgorithms, ", "))
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed),
		strings.Contains(err.Error(), "ssh: unable to authenticate"):
		failure.Cause = CredentialsRefused
	}
	failure.err = r.failed(what, failure.err)
	return failure
}
