package git

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Cause is the reason why a request to a repository failed.
type Cause int

// Causes of failed requests.
const (
	// Unreachable covers all other causes.
	Unreachable Cause = iota
	// CredentialsRefused means that the server rejects the credentials.
	CredentialsRefused
	// HostKeyRefused means that known_hosts does not contain the SSH server's key.
	HostKeyRefused
)

// FetchError is the error from a request to a repository.
type FetchError struct {
	Cause Cause
	err   error
}

func (e *FetchError) Error() string { return e.err.Error() }

func (e *FetchError) Unwrap() error { return e.err }

// hostKeyError means that known_hosts does not contain the key of an SSH server.
type hostKeyError struct {
	file        string
	host        string
	fingerprint string
	err         error
}

func (e *hostKeyError) Error() string {
	const advice = "verify this key with the server's operators, and then add it to known_hosts"
	var mismatch *knownhosts.KeyError
	if errors.As(e.err, &mismatch) && len(mismatch.Want) > 0 {
		return fmt.Sprintf("known_hosts (%s) has a different key for %s than the server, which sent %s: %s", e.file, e.host,
			e.fingerprint, advice)
	}
	if errors.As(e.err, &mismatch) {
		return fmt.Sprintf("known_hosts (%s) has no key for %s; the server sent key %s: %s", e.file, e.host, e.fingerprint,
			advice)
	}
	return fmt.Sprintf("known_hosts (%s) does not accept the key of %s, %s: %v", e.file, e.host, e.fingerprint, e.err)
}

func (e *hostKeyError) Unwrap() error { return e.err }

func (r *Repository) fetchError(what string, err error) error {
	failure := &FetchError{err: err}
	var hostKey *hostKeyError
	var algorithms *ssh.AlgorithmNegotiationError
	var references *packp.ErrUnexpectedData
	switch {
	case errors.As(err, &hostKey):
		failure.Cause, failure.err = HostKeyRefused, hostKey // drop the prefix that the library adds
	case errors.As(err, &algorithms) && algorithms.What == "host key":
		failure.Cause = HostKeyRefused
		failure.err = fmt.Errorf("known_hosts (%s) has no key for %s of a type that the server supports (%s): "+
			"get the key from the server's operators, and add it to known_hosts", r.Credentials.knownHosts,
			r.endpoint.Host, strings.Join(algorithms.RequestedAlgorithms, ", "))
	case errors.As(err, &references):
		// Replace the original error, because it contains data from the server.
		failure.err = fmt.Errorf("%s: the references are invalid or larger than %d MiB", references.Msg,
			maxPackBytes>>20)
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed),
		strings.Contains(err.Error(), "ssh: unable to authenticate"):
		failure.Cause = CredentialsRefused
	}
	failure.err = r.newFetchError(what, failure.err)
	return failure
}
