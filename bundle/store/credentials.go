package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// helpers contains the credential helpers that a docker config.json configures.
//
// Source: docker CLI, cli/config/configfile, and docker/docker-credential-helpers.
type helpers struct {
	// ByHost maps server addresses to credential helpers. Store is the helper for all other hosts.
	ByHost map[string]string `json:"credHelpers"`
	Store  string            `json:"credsStore"`
}

// CheckDockerConfig returns an error if data is not a docker config.json.
func CheckDockerConfig(data []byte) error {
	_, err := storedCredentials(data, nil)
	return err
}

// storedCredentials returns a function that finds a host's credentials. The function tries, in this order, the docker
// config.json, the host's credential helper, login, and the credential helper for all other hosts. storedCredentials
// returns nil if dockerConfig is empty and login is nil.
func storedCredentials(dockerConfig []byte, login LoginFunc) (auth.CredentialFunc, error) {
	if len(dockerConfig) == 0 {
		if login == nil {
			return nil, nil
		}
		dockerConfig = []byte("{}")
	}
	file, err := credentials.NewMemoryStoreFromDockerConfig(dockerConfig)
	if err != nil {
		return nil, fmt.Errorf("docker config: %w", err)
	}
	var named helpers
	if err := json.Unmarshal(dockerConfig, &named); err != nil {
		return nil, fmt.Errorf("docker config: %w", err)
	}
	inFile, cached := credentials.Credential(file), newLogins()
	return func(ctx context.Context, host string) (auth.Credential, error) {
		found, err := inFile(ctx, host)
		if err != nil || found != auth.EmptyCredential {
			return found, err
		}
		return cached.get(ctx, host, func(ctx context.Context) (auth.Credential, time.Time, error) {
			return named.credential(ctx, host, login)
		})
	}, nil
}

// credential runs the login or the credential helper of a host.
func (h helpers) credential(ctx context.Context, host string, login LoginFunc) (auth.Credential, time.Time, error) {
	// For Docker Hub, docker login stores credentials under an address that differs from the host.
	server := credentials.ServerAddressFromHostname(host)
	if helper := h.ByHost[server]; helper != "" {
		found, err := runHelper(ctx, helper, server, helperTimeout)
		return found, time.Time{}, err
	}
	if login != nil {
		found, err := login(ctx, host)
		if err != nil {
			return auth.EmptyCredential, time.Time{}, err
		}
		if found != nil {
			return auth.Credential{Username: found.Username, Password: found.Password}, found.Expires, nil
		}
	}
	if h.Store == "" {
		return auth.EmptyCredential, time.Time{}, nil
	}
	// The credential helper of Docker Desktop exists only on the user's machine.
	if _, err := exec.LookPath(helperPrefix + h.Store); err != nil {
		return auth.EmptyCredential, time.Time{}, nil
	}
	found, err := runHelper(ctx, h.Store, server, helperTimeout)
	return found, time.Time{}, err
}
