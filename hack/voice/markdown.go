package main

import (
	"regexp"
	"strings"
)

var (
	fence     = regexp.MustCompile("(?ms)^ *```(\\w*)[^\n]*\n(.*?)^ *```$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	linked    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]*\)`)
	remark    = regexp.MustCompile(`(?s)<!--.*?-->`)
	generated = regexp.MustCompile(`(?s)<!-- (\w[^>]*?) -->\n.*?<!-- end of .*? -->`)
)

// addMarkdown adds the words in a page's prose and tables. It omits code, link targets and generated parts.
func (c collection) addMarkdown(file, text string) {
	if isGenerated(file) {
		return
	}
	u := c.unit(markdown, file)
	text = blank(generated, text)
	text = blank(remark, text)
	u.measureLines(file, withoutOutput(text), func(line string) string {
		if strings.HasPrefix(strings.TrimSpace(line), "|") {
			return ""
		}
		return url.ReplaceAllString(linked.ReplaceAllString(line, "$1"), "")
	})
	text = blank(fence, text)
	text = codeSpan.ReplaceAllString(linked.ReplaceAllString(text, "$1"), "code")
	u.add(file, 1, text)
}

// isGenerated reports whether the whole page is generated.
func isGenerated(file string) bool {
	switch file {
	case "docs/reference/annotations-and-labels.md", "docs/reference/conditions-and-reasons.md",
		"docs/reference/crds.md",
		"docs/reference/situations.md":
		return true
	}
	return strings.HasPrefix(file, "docs/reference/cli/")
}

// withoutOutput drops code blocks other than shell commands, because output can have long lines.
func withoutOutput(text string) string {
	return fence.ReplaceAllStringFunc(text, func(block string) string {
		if language := fence.FindStringSubmatch(block)[1]; language == "sh" || language == "bash" {
			return block
		}
		return strings.Repeat("\n", strings.Count(block, "\n"))
	})
}

// blank replaces each match with its newlines, so line numbers do not change.
func blank(pattern *regexp.Regexp, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(match string) string {
		return strings.Repeat("\n", strings.Count(match, "\n"))
	})
}
