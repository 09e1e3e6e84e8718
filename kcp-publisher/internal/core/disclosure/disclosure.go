// Package disclosure finds secrets in data before it is published, because every runtime can read the catalog. It
// detects secrets by their format, so it does not find a password that looks like an ordinary word.
package disclosure

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Finding is a field that appears to contain a secret.
type Finding struct {
	// Field is a path such as spec.data.spec.hosts[0].
	Field string
	// Resembles is the kind of secret that the field appears to contain, such as "a private key".
	Resembles string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s appears to contain %s, which every runtime could read", f.Field, f.Resembles)
}

// FindSecret returns the first field in a decoded JSON value that appears to contain a secret. path is the path of the
// value. FindSecret skips the fields in public.
func FindSecret(value any, path string, public []string) (Finding, bool) {
	if slices.Contains(public, path) {
		return Finding{}, false
	}
	switch v := value.(type) {
	case string:
		if resembles := detect(v); resembles != "" {
			return Finding{Field: path, Resembles: resembles}, true
		}
	case []any:
		for i, item := range v {
			if f, ok := FindSecret(item, fmt.Sprintf("%s[%d]", path, i), public); ok {
				return f, true
			}
		}
	case map[string]any:
		if field := filledSecret(v); field != "" && !slices.Contains(public, childPath(path, field)) {
			return Finding{Field: childPath(path, field), Resembles: "the content of a Secret"}, true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if resembles := detect(key); resembles != "" {
				return Finding{Field: path, Resembles: resembles + " as a field name"}, true
			}
			if f, ok := FindSecret(v[key], childPath(path, key), public); ok {
				return f, true
			}
		}
	}
	return Finding{}, false
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func childPath(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// filledSecret returns "data" or "stringData" if the object is a Kubernetes Secret with values in that field.
// Otherwise, it returns "".
func filledSecret(object map[string]any) string {
	if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return ""
	}
	for _, field := range []string{"data", "stringData"} {
		for _, value := range asMap(object[field]) {
			if value != nil && value != "" {
				return field
			}
		}
	}
	return ""
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

type secretFormat struct {
	resembles string
	// marker is a substring of every secret with this format. Texts without it do not need the slow pattern match.
	marker  string
	pattern *regexp.Regexp
}

// secretFormats lists the secret formats to detect. Vendors, RFC 7468 or RFC 7519 document them.
var secretFormats = []secretFormat{
	{"a private key", "PRIVATE KEY", regexp.MustCompile(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)},
	{"an age identity", "AGE-SECRET-KEY-", regexp.MustCompile(`AGE-SECRET-KEY-(PQ-)?1[0-9A-Z]{50,}`)},
	{"an AWS token", "AKIA", regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`)},
	{"an AWS token", "ASIA", regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`)},
	{"a GitHub token", "gh", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36,}`)},
	{"a GitHub token", "github_pat_", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{22,}`)},
	{"a GitLab token", "glpat-", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"a Slack token", "xox", regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{"a Google key", "AIza", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`)},
	{"a Stripe key", "_live_", regexp.MustCompile(`\b[rs]k_live_[0-9A-Za-z]{24,}`)},
	{"an npm token", "npm_", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{"a kyma-pull token", "kp", regexp.MustCompile(`\bkp[rt]1\.[0-9]+\.[A-Za-z0-9_-]{43}`)},
	{"a JSON Web Token", "eyJ", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}`)},
	{"registry credentials", `"auth"`, regexp.MustCompile(`"auth"\s*:\s*"[A-Za-z0-9+/]{4,}={0,2}"`)},
	{"a password in a URL", "://", regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@"'${}<>*]+:[^\s/:@"'${}<>*]{3,}@`)},
}

// detect returns the kind of secret in text, or "". It also checks base64-encoded text.
func detect(text string) string {
	if resembles := detectPlain(text); resembles != "" {
		return resembles
	}
	// Kubernetes encodes binary data as base64.
	packed := strings.TrimSpace(text)
	if len(packed) < 24 || len(packed)%4 != 0 {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return ""
	}
	return detectPlain(string(plain))
}

func detectPlain(text string) string {
	for _, f := range secretFormats {
		if strings.Contains(text, f.marker) && f.pattern.MatchString(text) {
			return f.resembles
		}
	}
	return ""
}
