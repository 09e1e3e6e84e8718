package excerpt

import (
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
		"name: keda, value: 7",
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
		"a line of a log\nthe end [31m") || !utf8.ValidString(got) {
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
