package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

const (
	helperPrefix = "docker-credential-"
	// helperTimeout limits how long a credential helper can run, because requests to the registry wait for it.
	helperTimeout = 30 * time.Second
	// maxHelperBytes limits the output of a credential helper.
	maxHelperBytes = 1 << 20
	// maxHelperMessage limits the part of a helper's output in an error.
	maxHelperMessage = 300
	// tokenUser is the user name that a credential helper returns with an identity token instead of a password.
	tokenUser = "<token>"
	// noHelperCredentials is the output of a helper that has no credentials for a host.
	noHelperCredentials = "credentials not found in native keychain"
)

// runHelper returns the credentials for a host from a credential helper, or empty credentials if the helper has none.
// The error contains the names of the helper and the host.
//
// Source: docker/docker-credential-helpers, client/command.go and credentials/error.go.
func runHelper(ctx context.Context, name, host string, timeout time.Duration) (auth.Credential, error) {
	output, exists, err := helperOutput(ctx, helperPrefix+name, host, timeout)
	if err != nil {
		return auth.EmptyCredential, fmt.Errorf("credential helper %s%s for registry %s: %w", helperPrefix, name, host, err)
	}
	if !exists {
		return auth.EmptyCredential, nil
	}
	var found struct{ Username, Secret string }
	if err := json.Unmarshal(output, &found); err != nil {
		// The error does not contain the output, because the output can contain a password.
		return auth.EmptyCredential, fmt.Errorf(
			"credential helper %s%s for registry %s: the output is not a JSON object with Username and Secret",
			helperPrefix, name, host)
	}
	if found.Username == tokenUser {
		return auth.Credential{RefreshToken: found.Secret}, nil
	}
	return auth.Credential{Username: found.Username, Password: found.Secret}, nil
}

// helperOutput runs a credential helper. It also reports whether the helper has credentials for the host.
func helperOutput(
	ctx context.Context, program, host string, timeout time.Duration,
) (credentials []byte, exists bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	command := exec.CommandContext(limited, program, "get")
	command.Stdin = strings.NewReader(host)
	// A child process of the helper can keep the output open after the helper was killed.
	command.WaitDelay = time.Second
	output := &helperBuffer{full: cancel}
	command.Stdout = output
	err = command.Run()
	switch {
	case output.overflowed:
		return nil, false, fmt.Errorf("the output has more than %d bytes", maxHelperBytes)
	case err == nil:
		return output.stored.Bytes(), true, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case limited.Err() != nil:
		return nil, false, fmt.Errorf("the helper did not finish within %s: %w", timeout, limited.Err())
	case errors.Is(err, exec.ErrNotFound):
		return nil, false, fmt.Errorf("the program is not in PATH: add it to the image, or mount it: %w", err)
	}
	message := strings.TrimSpace(output.stored.String())
	if message == noHelperCredentials {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("%w: %s", err, message[:min(len(message), maxHelperMessage)])
}

// helperBuffer stores at most maxHelperBytes. If the output is longer, it calls full.
type helperBuffer struct {
	stored     bytes.Buffer
	full       func()
	overflowed bool
}

func (b *helperBuffer) Write(p []byte) (int, error) {
	if b.stored.Len()+len(p) > maxHelperBytes {
		b.overflowed = true
		b.full()
		return 0, io.ErrShortBuffer
	}
	return b.stored.Write(p)
}
