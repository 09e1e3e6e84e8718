package signin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	clientID     = "kyma-pull-page"
	clientSecret = "a secret of the client"
)

// provider is an OIDC provider that signs in every visitor as one user. It checks the client's conformance with RFC
// 6749, RFC 7636 and OpenID Connect Core.
type provider struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	caFile string

	mu     sync.Mutex // guards the fields below
	claims map[string]any
	forge  func(claims map[string]any) // changes the claims of ID tokens, or nil
	signer *ecdsa.PrivateKey           // replaces the published key, or nil
	codes  map[string]url.Values       // authorization requests, by code
	down   bool
}

func startProvider(dir string) (*provider, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	p := &provider{key: key, codes: map[string]url.Values{}, caFile: filepath.Join(dir, "provider-ca.crt")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri":                              p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"},
			"subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}},
		})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return p, os.WriteFile(p.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
		0o600)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// as sets the claims of the next ID tokens. forge changes the claims, and signer signs the tokens; both can be nil.
func (p *provider) as(claims map[string]any, forge func(map[string]any), signer *ecdsa.PrivateKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.forge, p.signer = claims, forge, signer
}

func (p *provider) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	if asked.Get("client_id") != clientID || asked.Get("response_type") != "code" ||
		asked.Get("code_challenge_method") != "S256" ||
		asked.Get("state") == "" || asked.Get("nonce") == "" {
		http.Error(w, "the authorization request lacks required parameters", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = asked
	p.mu.Unlock()
	http.Redirect(w, r, asked.Get("redirect_uri")+"?"+
		url.Values{"code": {code}, "state": {asked.Get("state")}, "iss": {p.URL}}.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	name, secret, _ := r.BasicAuth()
	if name == "" {
		name, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if unescaped, err := url.QueryUnescape(secret); err == nil {
		secret = unescaped
	}
	challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || name != clientID || secret != clientSecret ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant","error_description":"the secret is hunter2"}`)
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": clientID, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"nonce": asked.Get("nonce"),
	}
	for name, value := range p.claims {
		claims[name] = value
	}
	if p.forge != nil {
		p.forge(claims)
	}
	key := p.key
	if p.signer != nil {
		key = p.signer
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}},
		nil)
	if err == nil {
		var raw string
		if raw, err = jwt.Signed(signer).Claims(claims).Serialize(); err == nil {
			answer(w, map[string]any{
				"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600, "id_token": raw,
			})
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
