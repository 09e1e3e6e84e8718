package excerpt

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestLikelySecretsAreMasked(t *testing.T) {
	const secret = "hunter2Hunter2"
	for _, text := range []string{
		"password=" + secret, "DB_PASSWORD: " + secret, `{"apiKey": "` + secret + `"}`, `{\"token\":\"x\"} token='` +
			secret + `'`,
		"connect with --client-secret " + secret, "passwd " + "is " + secret, "Authorization: Bearer " + secret,
		"authorization=Basic " + secret,
		"got bearer " + secret, "Set-Cookie: session=" + secret + "; Path=/", "postgres://user:" + secret +
			"@db:5432/app", "https://" + secret + "@host/",
		"-----BEGIN RSA PRIVATE KEY-----\n" + secret + "\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + secret,
		secret + "\n-----END PRIVATE KEY-----\nafter", "eyJhbGciOiJIUzI1NiJ9.eyJ" + secret + ".c2ln",
		"ghp_" + secret + "abcdefgh", "AKIAHUNTER2HUNTER2" + secret,
		"key " + secret + strings.Repeat("aB3", 12), strings.Repeat("0123456789abcdef",
			3) + secret, "pass\x00word=" + secret, "pass\u200bword: " + secret,
		"pass\u00adword=" + secret, "tok\u2060en: " + secret, "\u202epassword=" + secret,
		"db.password := " + secret, `token="a \" ` + secret + `"`,
		`{\"password\":\"` + secret + `\"}`, `{\\\"password\\\":\\\"` + secret + `\\\"}`,
		"password: |\n  " + secret, "password: >-\n  a\n  " + secret, "password: !!str " + secret,
		`{"name":"DB_PASSWORD","value":"` + secret + `"}`, "- name: DB_PASSWORD\n  value: " + secret,
		"EnvVar{Name:DB_PASSWORD,Value:" + secret + ",ValueFrom:nil}", `:password => "` + secret + `"`,
		`{"password": {"value": "` + secret + `"}}`, "passwords: [a, " + secret + "]", "token: map[value:" + secret + "]",
		"<password>" + secret + "</password>", "?x=1&token%3d" + secret, `password="a"` + secret,
		`password=a"` + secret, "dsn=user:" + secret + "@tcp(db:3306)/app", "AccountKey=" + secret,
		"https://a.example/b?sig=" + secret,
		"\x1b[36mpassword\x1b[0m=" + secret, "password\x1b[0m: \x1b[1m" + secret + "\x1b[0m", "password\u009b1m=" + secret,
		"\x1b]8;;https://a.example\x07password\x1b]8;;\x1b\\=" + secret, `{"url":"jdbc:x?password\u003d` + secret + `"}`,
		`\u003cpassword\u003e` + secret + `\u003c/password\u003e`,
		"https://user:p@ss@" + secret + "@host/", "dial user:" + secret + "@db:5432", "curl -u user:" + secret,
		`spec.password: Invalid value: "` + secret + `": must have 20 characters`,
		`data[db-token]: Invalid value: "` + secret + `"`, "encryption_key=" + secret, "passwords:\n- a\n- " + secret,
		"password '" + secret + "' is wrong", "a-_-_-" + secret + "-" + strings.Repeat("aB3-", 12),
	} {
		for name, got := range map[string]string{"line": RedactLine(text), "tail": RedactTail(text), "text": Redact(text)} {
			if strings.Contains(got, secret) || !strings.Contains(got, mask) {
				t.Errorf("got %s %q of %q, want the secret masked", name, got, text)
			}
		}
	}
}

func TestOrdinaryTextIsNotMasked(t *testing.T) {
	for _, text := range []string{
		"0/3 nodes are available: 3 Insufficient cpu.", "Back-off pulling image registry.example/lab/keda@sha256:" +
			strings.Repeat("0a", 32),
		"failed to open /var/lib/kubelet/pods/volumes/kubernetes.io~secret/certs: no such file",
		"level=info msg=started port=8080",
		"container keda in pod keda-operator-7d9f6b5c4d-x2x8p is waiting", "https://example.org/a?b=c",
		`secret "db-credentials" not found`, "registry.example/lab/keda:1.0@sha256:" + strings.Repeat("0a", 32),
		"name: keda, value: 7", "https://example.org/users?mail=ann@example.org",
		"failed to pull registry.example:5000/lab/keda:1.0@sha256:" + strings.Repeat("0a", 32),
		`spec.replicas: Invalid value: 7: must be less than 5`,
	} {
		if got := RedactLine(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestLogTailIsLimitedInLinesAndBytes(t *testing.T) {
	var lines []string
	for range 10_000 {
		lines = append(lines, "a line of a log")
	}
	got := RedactTail(strings.Join(append(lines, "the end \x1b[31m\xff", ""), "\n"))
	if len(got) > bundle.MaxLogBytes || !strings.HasSuffix(got,
		"a line of a log\nthe end") || !utf8.ValidString(got) {
		t.Errorf("got %d bytes %q, want the last lines in at most %d bytes", len(got), got, bundle.MaxLogBytes)
	}
	cut := "a secret that the limit cuts " + strings.Repeat("x", maxRedactedBytes-len("\nthe end")-4) + "\nthe end"
	if got := RedactTail(cut); got != "the end" {
		t.Errorf("got %q, want no incomplete line", got)
	}
	if got := RedactLine("a\nb\t c"); got != "a b c" {
		t.Errorf("got %q, want \"a b c\"", got)
	}
}

func FuzzExcerpts(f *testing.F) {
	f.Add("password=x -----BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		if got := RedactLine(text); len(got) > bundle.MaxDetailTextBytes || !utf8.ValidString(got) || strings.Contains(got,
			"\n") {
			t.Errorf("got %q, want one valid line within the limit", got)
		}
		if got := RedactTail(text); len(got) > bundle.MaxLogBytes || !utf8.ValidString(got) {
			t.Errorf("got %q, want valid text within the limit", got)
		}
	})
}

// Tokens often have the format of Python's secrets.token_urlsafe.
func TestRandomTextIsMasked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		encoding *base64.Encoding
		bytes    int
	}{
		"32 bytes in base64 for URLs": {base64.RawURLEncoding, 32}, "48 bytes in base64": {base64.StdEncoding, 48},
		"64 bytes in base64 for URLs": {base64.RawURLEncoding, 64},
	} {
		shown := 0
		for range 5000 {
			secret := make([]byte, c.bytes)
			for i := range secret {
				secret[i] = byte(random.Uint32())
			}
			text := c.encoding.EncodeToString(secret)
			if strings.Contains(RedactKnown("signed in with "+text+" from ::1"), text) {
				shown++
			}
		}
		if shown > 5 {
			t.Errorf("%s: %d of 5000 texts are not masked, want at most 5", name, shown)
		}
	}
}

func TestErrorsAboutObjectsStayReadable(t *testing.T) {
	for _, text := range []string{
		"Secret default/db-token: the object does not exist yet", "ExternalSecret default/app: not ready",
		"token-injector: failed calling webhook",
		`secrets "kyma-pull-content-` + strings.Repeat("0a", 16) + `" is forbidden: exceeded quota`,
		"Secret kyma-system/kyma-pull-content-" + strings.Repeat("0a", 32) + " cannot be written",
	} {
		if got := RedactKnown(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if got := RedactKnown("Secret default/db-token: dial amqp://a:b@host"); strings.Contains(got, "a:b") {
		t.Errorf("got %q, want the password masked", got)
	}
}
