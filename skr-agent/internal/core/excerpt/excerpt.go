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

const mask = "[masked]"

// rule replaces one kind of secret: text that matches pattern becomes replacement.
type rule struct {
	pattern     *regexp.Regexp
	replacement string
}

// namePattern matches field and variable names that indicate a secret.
const namePattern = `(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|access|account|private|shared|signing|client)[-_]?key|session[-_]?id|cookie)`

// quotePattern matches an optional quotation mark. It can be escaped, because a JSON text can contain other JSON as a
// string.
const quotePattern = `\\*["']?`

// separatorPattern matches the text between a name and its value, including the tag of a YAML value.
const separatorPattern = quotePattern + `\s*(?:=>|->|:=|[:=]|%3[dD]|\bis\b)\s*(?:[&!][^\s"']*[ \t]+)?`

// valuePattern matches a value: a block in YAML, a list, a map, a quoted text, or one word.
const valuePattern = `(?:[|>][-+0-9]*[ \t]*(?:\n[ \t]+[^\n]*)+|(?:map)?\[[^\]]*\]?|\{[^}]*\}?|\\+["'][^"']*["']?|` +
	`(?:"(?:[^"\\\r\n]|\\.)*"?|'[^'\r\n]*'?|[^\s,;&}\]])[^\s,;&}\]]*)`

var rules = []rule{
	// PEM blocks, including blocks without the first or last line.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|\z)`), mask},
	{regexp.MustCompile(`(?s)\A.*?-----END [A-Z0-9 ]*-----`), mask},
	// Headers such as "Authorization: Basic dXNlcg==".
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[:=]\s*["']?)[^\r\n"']+`),
		"$1$2" + mask},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}`), "$1$2" + mask},
	// Environment variables in the spec of a Pod, such as "name: DB_PASSWORD, value: x".
	{regexp.MustCompile(`(?i)(\bname` + separatorPattern + quotePattern + `[\w.-]*` + namePattern + `[\w.-]*` +
		quotePattern + `[,\s]+` + quotePattern +
		`value` + separatorPattern + `)` + valuePattern), "$1" + mask},
	// Pairs such as "db_password=x", `"apiKey": "x"`, "--token x", and "password is x".
	{regexp.MustCompile(`(?i)([\w.-]*` + namePattern + `[\w.-]*` + separatorPattern + `)` + valuePattern), "$1" + mask},
	{regexp.MustCompile(`(?i)(<[\w:.-]*` + namePattern + `[\w.-]*>)[^<]+`), "$1" + mask},
	{regexp.MustCompile(`(?i)(\b(?:auth|sig|pw)` + quotePattern + `\s*[:=]\s*` + quotePattern + `)[^\s"',;&}\]]+`),
		"$1" + mask},
	{regexp.MustCompile(`(?i)(--?[\w-]*` + namePattern + `[\w-]*\s+)([^\s-][^\s]*)`), "$1" + mask},
	// URLs with a password.
	{regexp.MustCompile(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@]+@`), "${1}" + mask + "@"},
	{regexp.MustCompile(`\b([\w.-]+:)[^\s/@]+(@(?:tcp|unix)?\()`), "${1}" + mask + "${2}"},
	// Tokens that have a known form, such as JSON Web Tokens.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,4}`), mask},
	{
		regexp.MustCompile(
			`\b(?:A[KS]IA[0-9A-Z]{12,}\w*|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{20,}|[rs]k_live_\w{12,}|npm_\w{20,}|AGE-SECRET-KEY-[\w-]+|kp[rt]1\.[\w.-]+)`),
		mask,
	},
}

// opaquePattern matches long texts that are not words, such as keys in base64 or hexadecimal.
var opaquePattern = regexp.MustCompile(`(?:sha256:|sha512:)?[A-Za-z0-9+/_=-]{40,}`)

// Redact removes control characters from a text and masks everything that looks like a secret, except digests.
func Redact(text string) string {
	text = removeControlCharacters(text)
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.replacement)
	}
	return opaquePattern.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "sha256:") || strings.HasPrefix(found, "sha512:") || isPath(found) {
			return found
		}
		return mask
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

// RedactLine returns a text as one redacted line for a report.
func RedactLine(text string) string {
	return bundle.Bounded(strings.Join(strings.Fields(Redact(text)), " "), bundle.MaxDetailTextBytes)
}

const maxRedactedBytes = 16 << 10

// RedactTail returns the last lines of a log with masked secrets. It omits an incomplete first line, because the rules
// cannot recognize the rest of a secret.
func RedactTail(log string) string {
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

// removeControlCharacters removes invalid UTF-8, control characters and format characters. Such characters could hide a
// secret from the masking rules.
func removeControlCharacters(text string) string {
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
