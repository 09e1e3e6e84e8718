package command

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

// registryCredentials adds the credentials of a token service's user to config, a docker config.json, which can be
// empty.
func registryCredentials(config []byte, dir, location, user string, generation int) ([]byte, error) {
	host, _, err := token.SplitLocation(location)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--location %q: %w", location, err))
	}
	return addCredentials(config, dir, host, user, generation)
}

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
