package layout

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const longestAverage = 25

// longerPages maps each page with long sentences to the average sentence length that is allowed for it.
var longerPages = map[string]float64{}

var (
	fence     = regexp.MustCompile("(?ms)^ *```(\\w*)[^\n]*\n(.*?)^ *```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
	heading   = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	listItem  = regexp.MustCompile(`^ *([-*]|\d+\.) `)
	sentence  = regexp.MustCompile(`[.!?](\s|$)`)
)

// template contains placeholders instead of links.
const template = "docs/adr/template.md"

func pages(t *testing.T) []string {
	t.Helper()
	all := tracked(t, "*.md", "docs/**/*.md", "charts/*/README.md", "charts/*/README.md.gotmpl")
	return slices.DeleteFunc(all, func(page string) bool { return page == template })
}

func TestRelativeLinksResolve(t *testing.T) {
	known := map[string][]string{} // anchors by page
	anchorsOf := func(page string) []string {
		if _, ok := known[page]; !ok {
			known[page] = anchors(readFile(t, page))
		}
		return known[page]
	}
	for _, page := range pages(t) {
		for _, target := range links(t, page) {
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = filepath.Base(page)
			}
			file = path.Join(path.Dir(page), file)
			if _, err := os.Stat(filepath.Join(root(t), file)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, target)
				continue
			}
			if anchor != "" && strings.HasSuffix(file, ".md") && !slices.Contains(anchorsOf(file), anchor) {
				t.Errorf("%s links to %s, but the heading does not exist", page, target)
			}
		}
	}
}

func TestEveryPageIsReachableFromTheIndex(t *testing.T) {
	seen, next := map[string]bool{}, []string{"docs/README.md"}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		if seen[page] || page == template {
			continue
		}
		seen[page] = true
		for _, target := range links(t, page) {
			file, _, _ := strings.Cut(target, "#")
			file = path.Join(path.Dir(page), file)
			if strings.HasSuffix(file, ".md") && strings.HasPrefix(file, "docs/") {
				next = append(next, file)
			}
		}
	}
	for _, page := range tracked(t, "docs/**/*.md") {
		if !seen[page] && page != template {
			t.Errorf("%s is not reachable from docs/README.md: add it there", page)
		}
	}
}

// maxWords limits the length of pages by folder. References have no limit.
var maxWords = map[string]int{"docs/concepts/": 900, "docs/": 2500, "docs/reference/": math.MaxInt}

func TestPagesStayShort(t *testing.T) {
	for _, page := range tracked(t, "docs/**/*.md") {
		if page == "docs/kyma-compatibility.md" {
			continue // references have no limit
		}
		limit := maxWords["docs/"]
		for folder, words := range maxWords {
			if strings.HasPrefix(page, folder) && folder != "docs/" {
				limit = words
			}
		}
		if words := len(strings.Fields(readFile(t, page))); words > limit {
			t.Errorf("%s has %d words, want at most %d: split it by task", page, words, limit)
		}
	}
}

// Each answer must be at most two clicks away.
func TestDocsIndexLinksAnAnswerForEveryQuestion(t *testing.T) {
	_, questions, _ := strings.Cut(readFile(t, "docs/README.md"), "## Questions\n")
	questions, _, _ = strings.Cut(questions, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| [^|]+\? \| (.+) \|$`).FindAllStringSubmatch(questions, -1)
	if len(rows) < 15 {
		t.Errorf("docs/README.md contains %d questions, want at least 15", len(rows))
	}
	for _, row := range rows {
		if !link.MatchString(row[1]) {
			t.Errorf("docs/README.md: answer %q has no link", row[1])
		}
	}
}

func TestSentencesAreShort(t *testing.T) {
	for _, page := range pages(t) {
		// The command lines are generated, and the changelog is a list.
		if strings.HasPrefix(page, "docs/reference/cli/") || page == "CHANGELOG.md" {
			continue
		}
		average, allowed := averageSentence(readFile(t, page)), float64(longestAverage)
		if was, ok := longerPages[page]; ok {
			allowed = was
			if average <= longestAverage {
				t.Errorf("%s averages %.1f words per sentence: remove it from longerPages", page, average)
			}
		}
		if average > allowed {
			t.Errorf("%s averages %.1f words per sentence, want at most %.1f", page, average, allowed)
		}
	}
}

// links returns the repository files that a page links to.
func links(t *testing.T, page string) []string {
	t.Helper()
	text := codeSpan.ReplaceAllString(fence.ReplaceAllString(readFile(t, page), ""), "")
	var targets []string
	for _, l := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(l[1], ":") {
			targets = append(targets, l[1])
		}
	}
	return targets
}

// anchors returns the anchors of a page's headings.
func anchors(text string) []string {
	var names []string
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := linkText.ReplaceAllString(h[1], "$1")
		names = append(names,
			strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
	}
	return names
}

// averageSentence returns the average number of words in sentences, without code blocks, tables and headings.
func averageSentence(text string) float64 {
	text = fence.ReplaceAllString(text, "\n")
	text = codeSpan.ReplaceAllString(linkText.ReplaceAllString(text, "$1"), "code")
	var paragraphs []string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "<") {
			open = false
			continue
		}
		if !open || listItem.MatchString(line) {
			paragraphs = append(paragraphs, "")
			open = true
		}
		paragraphs[len(paragraphs)-1] += " " + listItem.ReplaceAllString(line, "")
	}
	sentences, words := 0, 0
	for _, p := range paragraphs {
		for _, s := range sentence.Split(p, -1) {
			if n := len(strings.Fields(s)); n > 0 {
				sentences, words = sentences+1, words+n
			}
		}
	}
	if sentences == 0 {
		return 0
	}
	return float64(words) / float64(sentences)
}
