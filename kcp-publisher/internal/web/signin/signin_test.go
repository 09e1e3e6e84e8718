package signin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignInRedirectsOnlyToTheUI(t *testing.T) {
	for asked, want := range map[string]string{
		"/runtimes/berlin?module=keda":  "/runtimes/berlin?module=keda",
		"/a%2Fb":                        "/a%2Fb",
		"":                              "/",
		"/":                             "/",
		"https://evil.example":          "/",
		"//evil.example":                "/",
		"/\\evil.example":               "/",
		"/\t/evil.example":              "/",
		"\t//evil.example":              "/",
		"/ /evil":                       "/",
		"/%5Cevil":                      "/%5Cevil",
		"/%2F/evil.example":             "/",
		"///evil.example":               "/",
		"javascript:alert(1)":           "/",
		"/sign-in?next=/":               "/",
		"/sign-in/oidc":                 "/",
		"/sign-out":                     "/",
		"/x#fragment":                   "/x",
		"/" + strings.Repeat("x", 2000): "/",
		"/\r\nSet-Cookie: a=b":          "/",
	} {
		if got := landingPath(asked); got != want {
			t.Errorf("%q leads to %q, want %q", asked, got, want)
		}
	}
}

func TestClaimsMapToUsersAsInKubeAPIServer(t *testing.T) {
	const issuer = "https://idp.example"
	for name, c := range map[string]struct {
		mapping Mapping
		claims  string
		user    string
		groups  []string
		refused string
	}{
		"subject with the issuer": {Mapping{}, `{"sub":"7"}`, issuer + "#7", nil, ""},
		"claim with the default prefix": {
			Mapping{UsernameClaim: "name"}, `{"name":"ann"}`, issuer + "#ann", nil, "",
		},
		"claim without a prefix": {
			Mapping{UsernameClaim: "name", UsernamePrefix: "-"}, `{"name":"ann"}`, "ann", nil, "",
		},
		"claim with a prefix": {
			Mapping{UsernameClaim: "name", UsernamePrefix: "idp:"}, `{"name":"ann"}`, "idp:ann", nil, "",
		},
		"verified email address": {
			Mapping{UsernameClaim: "email"}, `{"email":"a@b.example","email_verified":true}`, "a@b.example", nil, "",
		},
		"email address without email_verified": {
			Mapping{UsernameClaim: "email"}, `{"email":"a@b.example"}`, "a@b.example", nil, "",
		},
		"unverified email address": {
			Mapping{UsernameClaim: "email"}, `{"email":"a@b.example","email_verified":false}`, "", nil, "not verified",
		},
		"email_verified as a string": {
			Mapping{UsernameClaim: "email"}, `{"email":"a@b.example","email_verified":"false"}`, "", nil,
			"not verified",
		},
		"token with a list of groups": {
			Mapping{GroupsClaim: "groups", GroupsPrefix: "idp:"}, `{"sub":"7","groups":["a","b"]}`, issuer + "#7",
			[]string{"idp:a", "idp:b"}, "",
		},
		"token with a single group": {
			Mapping{GroupsClaim: "groups"}, `{"sub":"7","groups":"a"}`, issuer + "#7", []string{"a"}, "",
		},
		"groups without a configured claim": {Mapping{}, `{"sub":"7","groups":["a"]}`, issuer + "#7", nil, ""},
		"token with a reserved group": {
			Mapping{GroupsClaim: "groups"}, `{"sub":"7","groups":["system:masters","a",""]}`, issuer + "#7",
			[]string{"a"}, "",
		},
		"group that is reserved with its prefix": {
			Mapping{GroupsClaim: "groups", GroupsPrefix: "sys"}, `{"sub":"7","groups":["tem:masters"]}`, issuer + "#7",
			nil, "",
		},
		"token with groups of the wrong type": {
			Mapping{GroupsClaim: "groups"}, `{"sub":"7","groups":{"a":1}}`, "", nil, `claim "groups"`,
		},
		"token with too many groups": {
			Mapping{GroupsClaim: "groups"}, `{"sub":"7","groups":["` + strings.Repeat(`a","`, 600) + `a"]}`, "", nil,
			"at most",
		},
		"token with a reserved user name": {
			Mapping{UsernameClaim: "name", UsernamePrefix: "-"}, `{"name":"system:admin"}`, "", nil,
			"reserved for Kubernetes",
		},
		"token without a name":                {Mapping{}, `{}`, "", nil, `claim "sub"`},
		"token with an empty name":            {Mapping{}, `{"sub":""}`, "", nil, `claim "sub"`},
		"token with a name of the wrong type": {Mapping{}, `{"sub":["a"]}`, "", nil, `claim "sub"`},
		"token with a name that is too long": {
			Mapping{}, `{"sub":"` + strings.Repeat("x", 1000) + `"}`, "", nil, "at most",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal([]byte(c.claims), &claims))
			c.mapping.Issuer = issuer
			found, err := c.mapping.user(claims)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.user, found.Name)
			require.Equal(t, append(slices.Clone(c.groups), "system:authenticated"), found.Groups)
		})
	}
}

func keyFile(t *testing.T, secrets ...string) (*KeyFile, *time.Time, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session.key")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(secrets, "\n")), 0o600))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f, err := OpenKeyFile(path, func() time.Time { return now })
	require.NoError(t, err)
	return f, &now, path
}

var (
	oldSecret = strings.Repeat("a", 64)
	newSecret = strings.Repeat("b", 64)
)

func TestSessionSurvivesOneKeyRotation(t *testing.T) {
	f, now, path := keyFile(t, oldSecret)
	text, err := f.seal(sessionCookie, session{Name: "ann"}, now.Add(time.Hour))
	require.NoError(t, err)
	opens := func(content string) bool {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		*now = now.Add(secretsPoll)
		var found session
		err := f.open(sessionCookie, text, &found)
		return err == nil && found.Name == "ann"
	}
	if !opens(newSecret + "\n" + oldSecret + "\n") {
		t.Error("the session is invalid after one key rotation")
	}
	if !opens("") {
		t.Error("the session is invalid while the file is being written")
	}
	if opens(newSecret) {
		t.Error("the session is valid without its key")
	}
}

func TestCookieForAnotherPurposeIsRefused(t *testing.T) {
	f, now, _ := keyFile(t, oldSecret)
	other, _, _ := keyFile(t, newSecret)
	until := now.Add(time.Hour)
	good, err := f.seal(sessionCookie, session{Name: "ann"}, until)
	require.NoError(t, err)
	elsewhere, err := f.seal(flowCookie, session{Name: "ann"}, until)
	require.NoError(t, err)
	foreign, err := other.seal(sessionCookie, session{Name: "ann"}, until)
	require.NoError(t, err)
	middle := len(good) / 2
	modified := good[:middle] + "x" + good[middle+1:]
	if modified == good {
		modified = good[:middle] + "y" + good[middle+1:]
	}
	if strings.Contains(good, "ann") {
		t.Error("the sealed cookie contains the name in clear text")
	}
	var found session
	for what, text := range map[string]string{
		"cookie for another purpose": elsewhere, "cookie of another key": foreign, "empty value": "", "text": "hello",
		"modified value": modified, "truncated value": good[:middle],
		"unencrypted token": "eyJhbGciOiJub25lIn0.eyJuYW1lIjoiYW5uIn0.",
	} {
		if err := f.open(sessionCookie, text, &found); err == nil {
			t.Errorf("%s: the value is accepted", what)
		}
	}
	require.NoError(t, f.open(sessionCookie, good, &found))
	*now = until
	if err := f.open(sessionCookie, good, &found); err == nil {
		t.Error("an expired value is accepted")
	}
}

func TestInvalidKeyFileIsReported(t *testing.T) {
	for want, content := range map[string]string{"must have at least 32": "short", "0 secrets": "\n",
		"3 secrets": strings.Repeat(oldSecret+"\n", 3)} {
		path := filepath.Join(t.TempDir(), "session.key")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenKeyFile(path, time.Now)
		require.ErrorContains(t, err, want)
	}
}

func TestLongCookieIsSplit(t *testing.T) {
	now := time.Now()
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	set := func(value string) error {
		answer := httptest.NewRecorder()
		if err := writeCookie(answer, request, sessionCookie, value, now.Add(time.Hour), now); err != nil {
			return err
		}
		jar := map[string]*http.Cookie{}
		for _, c := range request.Cookies() {
			jar[c.Name] = c
		}
		for _, c := range answer.Result().Cookies() { //nolint:bodyclose // a recorder has none
			if len(c.String()) > 4096 || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode ||
				c.Path != "/" || c.Domain != "" {
				t.Errorf("cookie %s is too large or has insecure attributes", c.Name)
			}
			if jar[c.Name] = c; c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
		request = httptest.NewRequest(http.MethodGet, "/", nil)
		for _, c := range jar {
			request.AddCookie(c)
		}
		return nil
	}
	long, short := strings.Repeat("0123456789", 1500), "short"
	for _, value := range []string{long, short, long} {
		require.NoError(t, set(value))
		require.Equal(t, value, readCookie(request, sessionCookie))
	}
	require.ErrorContains(t, set(strings.Repeat("x", 20000)), "fewer groups")
}
