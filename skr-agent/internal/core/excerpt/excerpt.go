// Package excerpt prepares text from a runtime for the report. It removes control characters, masks text that looks
// like a secret, and shortens the result. A secret that looks like an ordinary word is not masked. The package is pure.
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
const namePattern = `(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|` +
	`(?:api|access|account|private|shared|signing|client|encryption|master)[-_]?key|session[-_]?id|cookie)`

// quotePattern matches an optional quotation mark. The mark can be escaped, because JSON can contain other JSON as a
// string.
const quotePattern = `\\*["']?`

// separatorPattern matches the text between a name and its value, which can include a YAML tag.
const separatorPattern = quotePattern + `\s*(?:=>|->|:=|[:=]|%3[aAdD]|\bis\b)\s*(?:[&!][^\s"']*[ \t]+)?`

// valuePattern matches a value: a YAML block, a list, a map, quoted text, or one word.
const valuePattern = `(?:-[ \t]+[^\n]*(?:\n[ \t]*-[ \t]+[^\n]*)*|[|>][-+0-9]*[ \t]*(?:\n[ \t]+[^\n]*)+|(?:map)?\[[^\]]*\]?|\{[^}]*\}?|\\+["'][^"']*["']?|` +
	`(?:"(?:[^"\\\r\n]|\\.)*"?|'[^'\r\n]*'?|[^\s,;&}\]])[^\s,;&}\]]*)`

// knownRules mask secrets that have a recognizable form, even without a name such as "password" before them.
var knownRules = []rule{
	// PEM blocks, including blocks without the first or last line.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|\z)`), mask},
	{regexp.MustCompile(`(?s)\A.*?-----END [A-Z0-9 ]*-----`), mask},
	// Headers such as "Authorization: Basic dXNlcg==".
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[:=]\s*["']?)[^\r\n"']+`),
		"$1$2" + mask},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}`), "$1$2" + mask},
	// Errors from the API server, such as `spec.password: Invalid value: "x"`.
	{regexp.MustCompile(`(?i)(` + namePattern + `[\w.-]*["']?\]?[\w.\[\]-]*: (?:Invalid|Unsupported|Duplicate) value: )` +
		valuePattern), "$1" + mask},
	// URLs and data source names with a password.
	{regexp.MustCompile(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/]+@`), "${1}" + mask + "@"},
	{regexp.MustCompile(`\b([\w.-]+:)[^\s/@]+(@(?:tcp|unix)?\()`), "${1}" + mask + "${2}"},
	// Options such as "-u user:password".
	{regexp.MustCompile(`(\B-u\s+|--user(?:\s+|=))([^\s:]+:)\S+`), "${1}${2}" + mask},
	// Tokens that have a known form, such as JSON Web Tokens.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,4}`), mask},
	{
		regexp.MustCompile(
			`\b(?:A[KS]IA[0-9A-Z]{12,}\w*|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{20,}|[rs]k_live_\w{12,}|npm_\w{20,}|AGE-SECRET-KEY-[\w-]+|kp[rt]1\.[\w.-]+)`),
		mask,
	},
}

// namedRules mask the values of names that indicate a secret.
var namedRules = []rule{
	// Environment variables in a Pod spec, such as "name: DB_PASSWORD, value: x".
	{regexp.MustCompile(`(?i)(\bname` + separatorPattern + quotePattern + `[\w.-]*` + namePattern + `[\w.-]*` +
		quotePattern + `[,\s]+` + quotePattern +
		`value` + separatorPattern + `)` + valuePattern), "$1" + mask},
	// Pairs such as "db_password=x", `"apiKey": "x"`, "--token x", and "password is x".
	{regexp.MustCompile(`(?i)([\w.-]*` + namePattern + `[\w.-]*` + separatorPattern + `)` + valuePattern), "$1" + mask},
	{regexp.MustCompile("(?i)(\\bpass(?:word|wd|phrase|code)?\\s+)(?:\"[^\"\n]+\"|'[^'\n]+'|`[^`\n]+`)"), "$1" + mask},
	{regexp.MustCompile(`(?i)(<[\w:.-]*` + namePattern + `[\w.-]*>)[^<]+`), "$1" + mask},
	{regexp.MustCompile(`(?i)(\b(?:auth|sig|pw)` + quotePattern + `\s*[:=]\s*` + quotePattern + `)[^\s"',;&}\]]+`),
		"$1" + mask},
	{regexp.MustCompile(`(?i)(--?[\w-]*` + namePattern + `[\w-]*\s+)([^\s-][^\s]*)`), "$1" + mask},
}

// opaquePattern matches long text that does not consist of words, such as keys in base64 or hexadecimal.
var opaquePattern = regexp.MustCompile(`(?:sha256:|sha512:)?[A-Za-z0-9+/_=-]{40,}`)

// Redact removes control characters from text and masks everything that looks like a secret, except digests.
func Redact(text string) string {
	text = maskKnown(removeControlCharacters(text))
	return maskOpaque(applyRules(text, namedRules))
}

// RedactKnown is like Redact, but does not mask a value only because of its name. Use it for the agent's own messages,
// which can contain object names and other programs' errors. For example, it does not mask the error in "Secret
// default/token: not found".
func RedactKnown(text string) string { return maskOpaque(maskKnown(removeControlCharacters(text))) }

func applyRules(text string, rules []rule) string {
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.replacement)
	}
	return text
}

func maskKnown(text string) string {
	return userPattern.ReplaceAllStringFunc(applyRules(text, knownRules), func(found string) string {
		user, rest, _ := strings.Cut(found, ":")
		at := strings.LastIndexByte(rest, '@')
		if host := rest[at+1:]; strings.HasPrefix(host, "sha256") || strings.HasPrefix(host, "sha512") {
			return found
		}
		return user + ":" + mask + rest[at:]
	})
}

func maskOpaque(text string) string {
	return opaquePattern.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "sha256:") || strings.HasPrefix(found, "sha512:") || isPath(found) ||
			objectPattern.MatchString(found) {
			return found
		}
		return mask
	})
}

// objectPattern matches the name of an object with its namespace, and the agent's own Secrets, whose names contain
// digests.
var objectPattern = regexp.MustCompile(`^(?:[a-z0-9-]+/[a-z][a-z0-9]*-[a-z0-9-]+|kyma-pull-[a-z0-9-]+)$`)

// userPattern matches a password between a user and a host, such as "user:password@host". It also matches
// "name:tag@sha256".
var userPattern = regexp.MustCompile(`\b[\w.-]+:[^\s/@:]+@[\w.-]+`)

// isPath reports whether a long text is a path or a name with short parts. A part with upper case, lower case and
// digits can belong to random text in URL-safe base64.
func isPath(text string) bool {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '-' || r == '_' }) {
		if len(part) > 20 || strings.ContainsFunc(part, unicode.IsUpper) && strings.ContainsFunc(part, unicode.IsLower) &&
			strings.ContainsFunc(part, unicode.IsDigit) {
			return false
		}
	}
	return strings.Count(text, "/")+strings.Count(text, "-")+strings.Count(text,
		"_") >= 3 && !strings.ContainsAny(text, "+=")
}

// RedactLine returns text as one redacted line for a report.
func RedactLine(text string) string {
	return bundle.Bounded(strings.Join(strings.Fields(Redact(text)), " "), bundle.MaxDetailTextBytes)
}

const maxRedactedBytes = 16 << 10

// RedactTail returns the last lines of a log with masked secrets. It omits an incomplete first line, because the rules
// cannot recognize the end of a secret.
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
	text = terminalPattern.ReplaceAllString(strings.ToValidUTF8(text, ""), "")
	text = escapedPattern.ReplaceAllStringFunc(text, func(found string) string {
		return map[byte]string{'a': ":", 'c': "<", 'd': "=", 'e': ">"}[found[len(found)-1]|0x20]
	})
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, text)
}

// terminalPattern matches terminal control sequences, such as colors. A logger can write one between a name and its
// value.
//
// Source: ECMA-48, sections 5.3, 5.4 and 5.6.
var terminalPattern = regexp.MustCompile(
	`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|\x{9b}[0-?]*[ -/]*[@-~]`)

// escapedPattern matches separators in JSON text that an encoder wrote as escape sequences.
var escapedPattern = regexp.MustCompile(`(?i)\\+u003[acde]`)
