package command

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestInvalidSignInFlagsAreRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"--bind-address :8085":                    "would see the fleet with your permissions",
		"--bind-address 0.0.0.0:8085":             "would see the fleet with your permissions",
		"--bind-address example.org:8085":         "would see the fleet with your permissions",
		"--external-url https://a.example":        "--session-key is required",
		"--session-key k":                         "--external-url is required",
		"--oidc-issuer-url https://login.example": "--external-url is required",
		"--tls-certificate c":                     "--tls-certificate and --tls-key: set both or neither",
		"--external-url https://a.example --session-key k --oidc-client-id c":      "--oidc-issuer-url is required",
		"--external-url https://a.example --session-key k --session-lifetime 720h": "must be one minute to seven days",
		"--external-url https://a --session-key k --oidc-issuer-url https://b --token-audience c " +
			"--oidc-token-for-api-server": "cannot be combined with --token-audience",
	} {
		o := run(append([]string{"ui"}, strings.Fields(flags)...)...)
		if o.code != cli.ExitUsage || !strings.Contains(o.err, want) {
			t.Errorf("%s: got %+v", flags, o)
		}
	}
}
