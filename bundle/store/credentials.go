package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

const helperPrefix = "docker-credential-"

// helpers contains the credential helpers that a docker config.json configures.
//
// Source: docker CLI, cli/config/configfile, and docker/docker-credential-helpers.
type helpers struct {
	// ByHost maps hosts to credential helpers. Store is the helper for all other hosts.
	ByHost map[string]string `json:"credHelpers"`
	Store  string            `json:"credsStore"`
}

// CheckDockerConfig returns an error if data is not a docker config.json.
func CheckDockerConfig(data []byte) error {
	_, err := storedCredentials(data)
	return err
}

// storedCredentials returns a function that finds a host's credentials in a docker config.json or with its credential
// helpers. It returns nil if dockerConfig is empty.
func storedCredentials(dockerConfig []byte) (auth.CredentialFunc, error) {
	if len(dockerConfig) == 0 {
		return nil, nil
	}
	file, err := credentials.NewMemoryStoreFromDockerConfig(dockerConfig)
	if err != nil {
		return nil, fmt.Errorf("docker config: %w", err)
	}
	var named helpers
	if err := json.Unmarshal(dockerConfig, &named); err != nil {
		return nil, fmt.Errorf("docker config: %w", err)
	}
	inFile := credentials.Credential(file)
	return func(ctx context.Context, host string) (auth.Credential, error) {
		found, err := inFile(ctx, host)
		if err != nil || found != auth.EmptyCredential {
			return found, err
		}
		helper, required := named.ByHost[host]
		if !required {
			// The credential helper of Docker Desktop exists only on the user's machine.
			if helper = named.Store; helper != "" {
				if _, err := exec.LookPath(helperPrefix + helper); err != nil {
					return auth.EmptyCredential, nil
				}
			}
		}
		if helper == "" {
			return auth.EmptyCredential, nil
		}
		found, err = credentials.Credential(credentials.NewNativeStore(helper))(ctx, host)
		if err != nil {
			return auth.EmptyCredential, fmt.Errorf("%s%s: %w", helperPrefix, helper, err)
		}
		return found, nil
	}, nil
}
