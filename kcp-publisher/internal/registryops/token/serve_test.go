package token

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-logr/logr/funcr"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

var (
	secret = trust.TokenSecret(strings.Repeat("s", 32))
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func newIssuer(t *testing.T) *Issuer {
	t.Helper()
	file, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(file)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := NewIssuer("kyma-pull", "registry.example", signer)
	if err != nil {
		t.Fatal(err)
	}
	return issuer
}

type desk struct {
	*Service
	issuer *Issuer
	logged *strings.Builder
}

func newDesk(t *testing.T, inForce func(string) (int, error)) desk {
	t.Helper()
	d := desk{issuer: newIssuer(t), logged: &strings.Builder{}}
	if inForce == nil {
		inForce = func(string) (int, error) { return 1, nil }
	}
	var err error
	d.Service, err = NewService(Options{
		Secrets: func() (trust.TokenSecrets, error) { return trust.TokenSecrets{secret}, nil },
		Policy:  fleetPolicy(t, "modules/**"), Issuer: d.issuer, InForce: inForce,
		Now: func() time.Time { return noon }, FreshID: func() string { return "id-1" },
		Log: funcr.New(func(_, line string) { d.logged.WriteString(line + "\n") }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d desk) ask(user, password string, query url.Values) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, "/auth/token?"+query.Encode(), nil)
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	response := httptest.NewRecorder()
	d.ServeHTTP(response, request)
	return response
}

func passwordOf(t *testing.T, user string, generation int) string {
	t.Helper()
	password, err := Password(secret, user, generation)
	if err != nil {
		t.Fatal(err)
	}
	return password
}

func query(scopes ...string) url.Values {
	return url.Values{"service": {"registry.example"}, "scope": scopes}
}

func TestRuntimeGetsAShortLivedTokenForItsPermissions(t *testing.T) {
	d := newDesk(t, nil)
	response := d.ask("a", passwordOf(t, "a", 1),
		query("repository:fleet/reports/a:pull,push", "repository:fleet/runtimes/b:pull"))
	if response.Code != http.StatusOK || response.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("got status %d, headers %v, body %s", response.Code, response.Header(), response.Body)
	}
	var got tokenResponse
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.ExpiresIn != 300 || !got.IssuedAt.Equal(noon) || got.Token != got.AccessToken {
		t.Errorf("got response %+v", got)
	}
	parsed, err := jwt.ParseSigned(got.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	file, err := d.issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &set); err != nil {
		t.Fatal(err)
	}
	keys := set.Key(parsed.Headers[0].KeyID)
	if len(keys) != 1 || !keys[0].IsPublic() {
		t.Fatalf("got %d keys for the token's key id %q, want one public key", len(keys), parsed.Headers[0].KeyID)
	}
	var claims jwt.Claims
	var more struct {
		Access []Access `json:"access"`
	}
	if err := parsed.Claims(keys[0], &claims, &more); err != nil {
		t.Fatal(err)
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Issuer: "kyma-pull", Subject: "a", ID: "id-1",
		AnyAudience: jwt.Audience{"registry.example"}, Time: noon.Add(4 * time.Minute)}, 0); err != nil {
		t.Error(err)
	}
	if !claims.Expiry.Time().Equal(noon.Add(Validity)) || !claims.NotBefore.Time().Equal(noon) {
		t.Errorf("got claims %+v, want a validity of five minutes", claims)
	}
	if flat(more.Access) != "repository:fleet/reports/a:pull,push" {
		t.Errorf("got access %q, want pull and push of reports/a", flat(more.Access))
	}
}

func TestTokenWithoutAccessIsIssued(t *testing.T) {
	d := newDesk(t, nil)
	response := d.ask("a", passwordOf(t, "a", 1), url.Values{"service": {"registry.example"}})
	var got tokenResponse
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(got.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	if list, ok := claims["access"].([]any); !ok || len(list) != 0 {
		t.Errorf("got access %v, want an empty list, because registries can treat a missing list as full access",
			claims["access"])
	}
}

func TestInvalidCredentialsAreRefused(t *testing.T) {
	two := func(string) (int, error) { return 2, nil }
	for name, c := range map[string]struct {
		user, password string
		inForce        func(string) (int, error)
		want           int
	}{
		"request without credentials":        {want: 401},
		"empty password":                     {user: "a", want: 401},
		"another runtime's password":         {user: "a", password: passwordOf(t, "b", 1), want: 401},
		"password of runtime a-b for user a": {user: "a", password: passwordOf(t, "a-b", 1), want: 401},
		"revoked generation":                 {user: "a", password: passwordOf(t, "a", 1), inForce: two, want: 401},
		"lowest valid generation":            {user: "a", password: passwordOf(t, "a", 2), inForce: two, want: 200},
		"higher generation":                  {user: "a", password: passwordOf(t, "a", 3), inForce: two, want: 200},
		"password with a forged generation": {
			user: "a", password: strings.Replace(passwordOf(t, "a", 1), ".1.", ".2.", 1), inForce: two, want: 401,
		},
		"generation with a leading zero": {
			user: "a", password: strings.Replace(passwordOf(t, "a", 1), ".1.", ".01.", 1), want: 401,
		},
		"password of generation 0": {
			user: "a", password: strings.Replace(passwordOf(t, "a", 1), ".1.", ".0.", 1), want: 401,
		},
		"a user in upper case":    {user: "A", password: passwordOf(t, "a", 1), want: 401},
		"a user with a path":      {user: "a/../b", password: passwordOf(t, "b", 1), want: 401},
		"a user with a line feed": {user: "a\n1", password: passwordOf(t, "a", 1), want: 401},
		"password of the publisher": {
			user: UserPublisher, password: passwordOf(t, UserPublisher, 1), want: 200,
		},
		"publisher user without the underscore": {
			user: "publisher", password: passwordOf(t, UserPublisher, 1), want: 401,
		},
		"unreadable generations file": {
			user: "a", password: passwordOf(t, "a", 1),
			inForce: func(string) (int, error) { return 0, errors.New("gone") }, want: 503,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.inForce)
			response := d.ask(c.user, c.password, query("repository:fleet/runtimes/a:pull"))
			if response.Code != c.want {
				t.Fatalf("got status %d, want %d: %s", response.Code, c.want, response.Body)
			}
			if c.want == 401 && !strings.HasPrefix(response.Header().Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("response has no challenge: %v", response.Header())
			}
			if code := c.password[strings.LastIndexByte(c.password, '.')+1:]; code != "" &&
				strings.Contains(d.logged.String()+response.Body.String(), code) {
				t.Errorf("the log or the response contains the password: %s%s", d.logged, response.Body)
			}
		})
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	d := newDesk(t, nil)
	password := passwordOf(t, "a", 1)
	for name, q := range map[string]url.Values{
		"query without a service":       {"scope": {"repository:fleet/runtimes/a:pull"}},
		"query for a different service": {"service": {"other.example"}},
		"query for two services":        {"service": {"registry.example", "other.example"}},
		"an invalid scope":              query("repository:fleet/../a:pull"),
		"a query that is too long":      query(strings.Repeat("repository:a:pull ", 1000)),
	} {
		if response := d.ask("a", password, q); response.Code != http.StatusBadRequest {
			t.Errorf("%s: got status %d, want 400: %s", name, response.Code, response.Body)
		}
	}
	request := httptest.NewRequest(http.MethodPost, "/auth/token", strings.NewReader("grant_type=password"))
	response := httptest.NewRecorder()
	d.ServeHTTP(response, request)
	if response.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got status %d, want 405", response.Code)
	}
}

func TestFloodOfRefusalsDoesNotLockOutUsers(t *testing.T) {
	d := newDesk(t, nil)
	last := 0
	for range refusalsAtOnce + 20 {
		last = d.ask("a", "kpr1.1.wrong", query()).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("last refusal: got status %d", last)
	}
	if n := strings.Count(d.logged.String(), "refused"); n != refusalsAtOnce {
		t.Errorf("got %d log lines, want %d", n, refusalsAtOnce)
	}
	if response := d.ask("a", passwordOf(t, "a", 1), query()); response.Code != http.StatusOK {
		t.Errorf("the runtime is locked out: got status %d", response.Code)
	}
}

func TestPasswordGenerationsAreReloadedAfterAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "generations.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenGenerations(path); err == nil {
		t.Error("a missing file was accepted")
	}
	write("a: 2\n")
	g, err := OpenGenerations(path)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(user string, want int) {
		t.Helper()
		if got, err := g.InForce(user); err != nil || got != want {
			t.Errorf("user %s: got generation %d, %v, want %d", user, got, err, want)
		}
	}
	expect("a", 2)
	expect("b", 1)
	write("a: 3\nb: 7\n")
	expect("a", 3)
	expect("b", 7)
	for _, broken := range []string{"a: 0\n", "a: x\n", "A: 2\n", "a: 2\na: 3\n", "- a\n"} {
		write(broken)
		if _, err := g.InForce("c"); err == nil {
			t.Errorf("generations %q: got no error", broken)
		}
	}
	write("a: 4\n")
	expect("a", 4)
}

func BenchmarkToken(b *testing.B) {
	file, err := trust.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	signer, err := trust.LoadSigner(file)
	if err != nil {
		b.Fatal(err)
	}
	issuer, err := NewIssuer("kyma-pull", "registry.example", signer)
	if err != nil {
		b.Fatal(err)
	}
	granted := []Access{{Type: typeRepository, Name: "fleet/runtimes/a", Actions: []string{actionPull}}}
	for b.Loop() {
		if _, err := issuer.sign("a", granted, "id", noon); err != nil {
			b.Fatal(err)
		}
	}
}

// The test rotates the secret in the key folder while the service runs.
func TestPasswordsSurviveOneRotationOfTheirSecret(t *testing.T) {
	former, newest, third := secret, trust.TokenSecret(strings.Repeat("n", 32)),
		trust.TokenSecret(strings.Repeat("t", 32))
	secrets, problem := trust.TokenSecrets{former}, error(nil)
	d := newDesk(t, nil)
	d.passwords.Secrets = func() (trust.TokenSecrets, error) { return secrets, problem }
	asked := func(from trust.TokenSecret) int {
		t.Helper()
		password, err := Password(from, "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		return d.ask("a", password, query("repository:fleet/reports/a:pull")).Code
	}
	for name, c := range map[string]struct {
		secrets trust.TokenSecrets
		want    map[int]int // HTTP status by secret: former, newest and third
	}{
		"password before a rotation":   {trust.TokenSecrets{former}, map[int]int{0: 200, 1: 401, 2: 401}},
		"password after one rotation":  {trust.TokenSecrets{newest, former}, map[int]int{0: 200, 1: 200, 2: 401}},
		"password after two rotations": {trust.TokenSecrets{third, newest}, map[int]int{0: 401, 1: 200, 2: 200}},
		"password of a dropped secret": {trust.TokenSecrets{third}, map[int]int{0: 401, 1: 401, 2: 200}},
	} {
		secrets = c.secrets
		for i, from := range []trust.TokenSecret{former, newest, third} {
			if got := asked(from); got != c.want[i] {
				t.Errorf("%s: password of secret %d: got status %d, want %d", name, i, got, c.want[i])
			}
		}
	}
	if count := strings.Count(d.logged.String(), "keys rotate token"); count != 1 {
		t.Errorf("got %d log lines about an outdated password, want 1:\n%s", count, d.logged)
	}
	problem = errors.New("the file is gone")
	if got := asked(third); got != http.StatusServiceUnavailable {
		t.Errorf("without secrets: got status %d", got)
	}
}
