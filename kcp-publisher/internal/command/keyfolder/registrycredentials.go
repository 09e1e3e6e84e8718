package keyfolder

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

// RegistryCredentials adds credentials for a user of the token service to config. config is the content
// of a docker config.json, or empty.
func RegistryCredentials(config []byte, dir, location, user string, generation int) ([]byte, error) {
	if location == "" {
		return nil, cli.Usage(errors.New("--location is required: the fleet's registry prefix HOST/PATH"))
	}
	host, _, err := token.SplitLocation(location)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--location %q: %w", location, err))
	}
	return addCredentials(config, dir, host, user, generation)
}

// addCredentials adds a user's credentials for the token service at host to config, the content of a docker
// config.json.
func addCredentials(config []byte, dir, host, user string, generation int) ([]byte, error) {
	if err := token.CheckUser(user); err != nil {
		return nil, cli.Usage(err)
	}
	if generation < 1 {
		return nil, cli.Usage(fmt.Errorf("generation %d: must be at least 1", generation))
	}
	secret, err := (keys.Folder{Dir: dir}).TokenSecret()
	if err != nil {
		return nil, err
	}
	password, err := token.Password(secret, user, generation)
	if err != nil {
		return nil, err
	}
	content := map[string]json.RawMessage{}
	auths := map[string]json.RawMessage{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &content); err != nil {
			return nil, cli.Usage(errors.New("--registry-config: must be a JSON object"))
		}
		if raw := content["auths"]; raw != nil {
			if err := json.Unmarshal(raw, &auths); err != nil {
				return nil, cli.Usage(errors.New("--registry-config: auths must be a JSON object"))
			}
		}
	}
	if auths == nil || content == nil {
		return nil, cli.Usage(errors.New("--registry-config: must be a JSON object with auths"))
	}
	if _, taken := auths[host]; taken {
		return nil,
			cli.Usage(
				fmt.Errorf(
					"--registry-config already has credentials for %s: remove them, or omit --registry-password",
					host))
	}
	auths[host], err = json.Marshal(map[string]string{
		"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
	})
	if err != nil {
		return nil, err
	}
	if content["auths"], err = json.Marshal(auths); err != nil {
		return nil, err
	}
	return json.Marshal(content)
}

// NotificationCredentials adds a runtime's credentials for the notification endpoint at address to config.
func NotificationCredentials(config []byte, dir, address, runtime string, generation int) ([]byte, error) {
	if err := store.CheckStreamURL(address); err != nil {
		// the URL can contain credentials
		return nil, cli.Usage(fmt.Errorf("--notifications-url: %w", err))
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--notifications-url: %w", err))
	}
	var known struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &known); err != nil {
			return nil, cli.Usage(errors.New("--registry-config: must be a JSON object with auths"))
		}
	}
	if _, ok := known.Auths[parsed.Host]; ok {
		return config, nil
	}
	return addCredentials(config, dir, parsed.Host, runtime, generation)
}
