package signin

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestInternalProviderEndpointsAreRefused(t *testing.T) {
	for name, endpoint := range map[string]string{
		"metadata service":        "https://169.254.169.254/latest",
		"link-local IPv6 address": "https://[fe80::1]/latest",
		"local machine":           "https://127.0.0.2:1/latest",
		"plain HTTP":              "http://8.8.8.8/latest",
	} {
		t.Run(name, func(t *testing.T) {
			var provider *httptest.Server
			provider = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]any{
					"issuer": provider.URL, "authorization_endpoint": provider.URL, "token_endpoint": endpoint,
					"jwks_uri": endpoint, "id_token_signing_alg_values_supported": []string{"ES256"},
				})
			}))
			defer provider.Close()
			ca := filepath.Join(t.TempDir(), "ca.crt")
			require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{
				Type: "CERTIFICATE", Bytes: provider.Certificate().Raw,
			}), 0o600))
			o, err := NewOIDC(OIDCOptions{Mapping: Mapping{Issuer: provider.URL}, ClientID: "ui", CAFile: ca})
			require.NoError(t, err)
			found, err := o.discover(t.Context())
			require.NoError(t, err)
			config, err := o.config(found)
			require.NoError(t, err)
			var refused *store.RedirectError
			_, err = config.Exchange(oidc.ClientContext(t.Context(), o.client), "code")
			require.ErrorAs(t, err, &refused)
			keys := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), o.client), endpoint)
			_, err = keys.VerifySignature(t.Context(), "eyJhbGciOiJFUzI1NiJ9.e30.AAAA")
			require.ErrorAs(t, err, &refused)
		})
	}
}
