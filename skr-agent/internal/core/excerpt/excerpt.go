// Package excerpt prepares texts of a runtime for the report. It removes control characters, masks text that looks
// like a secret, and shortens the result. A secret that looks like an ordinary word is not masked. The package is
// pure.
package excerpt

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const masked = "[masked]"

// rule replaces one kind of secret: text that matches the field pattern becomes the text in the field with.
type rule struct {
	pattern *regexp.Regexp
	with    string
}

// names matches field and variable names that indicate a secret.
const names = `(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|access|account|private|shared|signing|client)[-_]?key|session[-_]?id|cookie)`

// quote matches an optional quotation mark. It can be escaped, because a JSON text can contain other JSON as a string.
const quote = `\\*["']?`

// separator matches the text between a name and its value, including the tag of a YAML value.
const separator = quote + `\s*(?:=>|->|:=|[:=]|%3[dD]|\bis\b)\s*(?:[&!][^\s"']*[ \t]+)?`

// value matches a value: a block in YAML, a list, a map, a quoted text, or one word.
const value = `(?:[|>][-+0-9]*[ \t]*(?:\n[ \t]+[^\n]*)+|(?:map)?\[[^\]]*\]?|\{[^}]*\}?|\\+["'][^"']*["']?|` +
	`(?:"(?:[^"\\\r\n]|\\.)*"?|'[^'\r\n]*'?|[^\s,;&}\]])[^\s,;&}\]]*)`

var rules = []rule{
	// PEM blocks, including blocks without the first or last line.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|\z)`), masked},
	{regexp.MustCompile(`(?s)\A.*?-----END [A-Z0-9 ]*-----`), masked},
	// Headers such as "Authorization: Basic dXNlcg==".
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[:=]\s*["']?)[^\r\n"']+`),
		"$1$2" + masked},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}`), "$1$2" + masked},
	// Environment variables in the spec of a Pod, such as "name: DB_PASSWORD, value: x".
	{regexp.MustCompile(`(?i)(\bname` + separator + quote + `[\w.-]*` + names + `[\w.-]*` + quote + `[,\s]+` + quote +
		`value` + separator + `)` + value), "$1" + masked},
	// Pairs such as "db_password=x", `"apiKey": "x"`, "--token x", and "password is x".
	{regexp.MustCompile(`(?i)([\w.-]*` + names + `[\w.-]*` + separator + `)` + value), "$1" + masked},
	{regexp.MustCompile(`(?i)(<[\w:.-]*` + names + `[\w.-]*>)[^<]+`), "$1" + masked},
	{regexp.MustCompile(`(?i)(\b(?:auth|sig|pw)` + quote + `\s*[:=]\s*` + quote + `)[^\s"',;&}\]]+`), "$1" + masked},
	{regexp.MustCompile(`(?i)(--?[\w-]*` + names + `[\w-]*\s+)([^\s-][^\s]*)`), "$1" + masked},
	// URLs with a password.
	{regexp.MustCompile(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@]+@`), "${1}" + masked + "@"},
	{regexp.MustCompile(`\b([\w.-]+:)[^\s/@]+(@(?:tcp|unix)?\()`), "${1}" + masked + "${2}"},
	// Tokens that have a known form, such as JSON Web Tokens.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,4}`), masked},
	{
		regexp.MustCompile(
			`\b(?:A[KS]IA[0-9A-Z]{12,}\w*|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{20,}|[rs]k_live_\w{12,}|npm_\w{20,}|AGE-SECRET-KEY-[\w-]+|kp[rt]1\.[\w.-]+)`),
		masked,
	},
}

// opaque matches long texts that are not words, such as keys in base64 or hexadecimal.
var opaque = regexp.MustCompile(`(?:sha256:|sha512:)?[A-Za-z0-9+/_=-]{40,}`)

// Redact removes control characters from a text and masks everything that looks like a secret, except digests.
func Redact(text string) string {
	text = clean(text)
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.with)
	}
	return opaque.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "sha256:") || strings.HasPrefix(found, "sha512:") || isPath(found) {
			return found
		}
		return masked
	})
}

// isPath reports whether a long text is a path or a name with short parts.
func isPath(text string) bool {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '-' || r == '_' }) {
		if len(part) > 20 {
			return false
		}
	}
	return strings.Count(text, "/")+strings.Count(text, "-")+strings.Count(text,
		"_") >= 3 && !strings.ContainsAny(text, "+=")
}

// Line returns a text as one redacted line for a report.
func Line(text string) string {
	return bundle.Bounded(strings.Join(strings.Fields(Redact(text)), " "), bundle.MaxDetailTextBytes)
}

const maxRedactedBytes = 16 << 10

// Tail returns the last lines of a log with masked secrets. It omits an incomplete first line, because the rules cannot
// recognize the rest of a secret.
func Tail(log string) string {
	if len(log) > maxRedactedBytes {
		_, log, _ = strings.Cut(log[len(log)-maxRedactedBytes:], "\n")
	}
	var kept []string
	left := bundle.MaxLogBytes
	lines := strings.Split(strings.TrimRight(Redact(log), "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := bundle.Bounded(strings.TrimRight(lines[i], " \r\t"), bundle.MaxDetailTextBytes)
		if left -= len(line) + 1; left < 0 {
			break
		}
		kept = append(kept, line)
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return strings.Join(kept, "\n")
}

// clean removes invalid UTF-8, control characters and format characters. Such characters could hide a secret from the
// masking rules.
func clean(text string) string {
	if len(text) > 2*maxRedactedBytes {
		text = text[:2*maxRedactedBytes]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}
